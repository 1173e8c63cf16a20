//! One authenticated, authorised request for a resource: what every verb gets.

use std::sync::Arc;

use http::HeaderMap;
use serde_json::Value;

use crate::auth::Identity;
use crate::conversion;
use crate::core::Core;
use crate::negotiate::Output;
use crate::parameters::Parameters;
use crate::path::{ResourcePath, Verb};
use crate::registry::Kind;
use crate::status::{ApiError, Result};
use crate::store::{Name, Object};

pub(crate) struct Call {
    pub(crate) core: Arc<Core>,
    pub(crate) kind: Arc<Kind>,
    pub(crate) path: ResourcePath,
    pub(crate) verb: Verb,
    pub(crate) identity: Identity,
    pub(crate) parameters: Parameters,
    pub(crate) output: Output,
    pub(crate) headers: HeaderMap,
}

impl Call {
    /// The key of the object that the path names.
    pub(crate) fn name(&self) -> Name {
        Name::new(self.namespace(), &self.path.name)
    }

    /// The namespace for storage: empty for cluster-scoped kinds, even where the path has one.
    pub(crate) fn namespace(&self) -> &str {
        if self.kind.namespaced {
            &self.path.namespace
        } else {
            ""
        }
    }

    /// The object that the path names.
    pub(crate) fn current(&self) -> Result<Arc<Object>> {
        let object = self.core.store.get(&self.kind.resource, &self.name());
        object.ok_or_else(|| self.not_found())
    }

    /// An object's tree in the version of this request.
    pub(crate) fn view(&self, object: &Object) -> Value {
        conversion::from_storage(&self.kind, object.value())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::NotFound(self.kind.subject(&self.path.name))
    }

    /// Who managed fields name as the author: the parameter, else the client's program.
    pub(crate) fn field_manager(&self) -> String {
        if !self.parameters.field_manager.is_empty() {
            return self.parameters.field_manager.clone();
        }
        let agent = self
            .headers
            .get(http::header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let program = agent
            .unwrap_or_default()
            .split('/')
            .next()
            .unwrap_or_default();
        if program.is_empty() {
            "unknown".to_owned()
        } else {
            program.chars().take(128).collect()
        }
    }
}
