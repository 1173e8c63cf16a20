//! Between a connection and a verb: what a request says, and the form of its answer.

pub(crate) mod audit;
pub(crate) mod decode;
pub(crate) mod dispatch;
pub(crate) mod documents;
pub(crate) mod health;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod negotiate;
pub(crate) mod parameters;
pub(crate) mod path;
pub(crate) mod pieces;
pub(crate) mod protobuf;
pub(crate) mod respond;
pub(crate) mod tls;
