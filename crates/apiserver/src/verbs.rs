//! The verbs of the API, one file each, and what they share.

pub(crate) mod call;
pub(crate) mod commit;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod modify;
pub(crate) mod patch;
pub(crate) mod reviews;
pub(crate) mod subresources;
pub(crate) mod update;
pub(crate) mod watch;
