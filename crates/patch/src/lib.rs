//! Patches of Kubernetes objects: JSON, merge, strategic merge and server-side apply. Pure.
