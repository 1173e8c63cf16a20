//! Request bodies in Kubernetes' protobuf encoding.
