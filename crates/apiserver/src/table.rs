//! Tables: what `kubectl get` prints.
