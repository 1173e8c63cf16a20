//! `get`: one object, as it is in memory.

use axum::response::Response;
use http::StatusCode;

use crate::call::Call;
use crate::respond;
use crate::status::Result;

pub(crate) async fn get(call: &Call) -> Result<Response> {
    super::list::wait_for_revision(call).await?;
    let object = call.current()?;
    Ok(respond::object(call, &object, StatusCode::OK, &[]))
}
