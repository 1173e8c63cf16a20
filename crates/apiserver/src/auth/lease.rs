//! How long an answer may go on: as long as its caller might ask for it again.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::watch;

use super::authenticate;
use super::identity::{Identity, MASTERS};
use super::policy::Attributes;
use crate::server::Core;

/// Tokens also end by themselves.
const LOOK: Duration = Duration::from_secs(30);

/// What a stream was allowed by.
#[derive(Clone)]
pub(crate) struct Lease {
    core: Arc<Core>,
    known: Option<Identity>,
    headers: HeaderMap,
    attributes: Attributes,
    changes: watch::Receiver<u64>,
}

impl Lease {
    /// For a request that is being answered. Parts of this process that may do everything need none.
    pub(crate) fn new(
        core: &Arc<Core>,
        known: Option<&Identity>,
        caller: &Identity,
        headers: &HeaderMap,
        attributes: Attributes,
    ) -> Option<Self> {
        if known.is_some() && caller.is_in(MASTERS) {
            return None;
        }
        Some(Self {
            core: Arc::clone(core),
            known: known.cloned(),
            headers: headers.clone(),
            attributes,
            changes: core.rights.subscribe(),
        })
    }

    /// Returns when the caller may no longer have what is being sent.
    pub(crate) async fn ended(mut self) {
        while self.holds() {
            tokio::select! {
                changed = self.changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn holds(&self) -> bool {
        let caller = authenticate::identify(&self.core, self.known.as_ref(), &self.headers);
        let policy = self.core.policy.get(&self.core.store);
        caller.is_ok_and(|caller| policy.allows(&caller, &self.attributes))
    }
}
