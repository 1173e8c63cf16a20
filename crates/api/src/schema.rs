//! Finishes the generated schemas: what Kubernetes expects of a definition and the derived schemas
//! of embedded Kubernetes types do not say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Finishes one definition.
pub(crate) fn finish(definition: CustomResourceDefinition) -> CustomResourceDefinition {
    definition
}
