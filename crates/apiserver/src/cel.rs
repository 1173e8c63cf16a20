//! The rules of `x-kubernetes-validations`.
