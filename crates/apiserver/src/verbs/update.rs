//! `update`: a whole object replaces the stored one.

use axum::response::Response;
use serde_json::Value;

use super::create;
use super::modify::{self, Tracking};
use crate::admission;
use crate::http::respond;
use crate::kinds::metadata;
use crate::kinds::schema::FieldError;
use crate::status::{ApiError, Result};
use crate::verbs::call::Call;

pub(crate) async fn update(call: &Call, mut object: Value) -> Result<Response> {
    if call.path.name.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    create::check_type(&call.kind, &mut object)?;
    create::check_namespace(call, &mut object)?;
    if metadata::text(&object, "name").is_empty() {
        metadata::of(&mut object).insert("name".to_owned(), call.path.name.as_str().into());
    }
    // Built-in kinds may be replaced blindly; custom ones must say what they replace.
    if call.kind.custom.is_some() && metadata::text(&object, "resourceVersion").is_empty() {
        call.current()?;
        let error = FieldError::invalid(
            "metadata.resourceVersion",
            &0.into(),
            "must be specified for an update",
        );
        return Err(admission::invalid(&call.kind, &object, vec![error]));
    }
    let (stored, warnings) = modify::modify(call, Tracking::Update, |_| Ok(object.clone())).await?;
    Ok(respond::object(call, &stored, &warnings))
}
