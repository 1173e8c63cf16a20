//! `get`: one object, as it is in memory.

use axum::response::Response;

use crate::http::respond;
use crate::status::Result;
use crate::verbs::call::Call;

pub(crate) async fn get(call: &Call) -> Result<Response> {
    super::list::wait_for_revision(call).await?;
    let object = call.current()?;
    Ok(respond::object(call, &object, &[]))
}
