//! A Kubernetes-compatible API server over SQLite.
