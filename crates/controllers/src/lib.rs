//! Reconcilers and the gang scheduler; they talk only through kube::Client.
