//! How long a stream may go on: as long as its reader may still ask for it.

use std::sync::Arc;
use std::time::Duration;

use super::Error;
use crate::context::Context;
use crate::identity::{Access, Caller};

/// The answers themselves are remembered for longer, unless a token is taken back here.
const EVERY: Duration = Duration::from_secs(2);

/// What a stream was allowed by.
pub(crate) struct Lease {
    pub(crate) context: Arc<Context>,
    pub(crate) caller: Caller,
    /// What the caller proved with who they are; nothing where nobody has to.
    pub(crate) token: Option<String>,
    /// What they need for all of it; nothing where each piece is asked for by itself.
    pub(crate) access: Option<Access>,
}

impl Lease {
    /// Returns when the caller may no longer have what is being sent. While the API server is away, all stays as it is.
    pub(crate) async fn ended(self) {
        loop {
            tokio::time::sleep(EVERY).await;
            if let Some(token) = &self.token
                && matches!(
                    self.context.caller(token).await,
                    Err(Error::Unauthenticated)
                )
            {
                return;
            }
            if let Some(access) = &self.access
                && matches!(self.context.gate.may(&self.caller, access).await, Ok(false))
            {
                return;
            }
        }
    }
}
