//! Who asks ([`authenticate`]), and whether they may ([`rbac`]).

pub(crate) mod authenticate;
pub(crate) mod certificate;
pub(crate) mod escalation;
mod identity;
pub(crate) mod lease;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod tokens;

pub use identity::Identity;
pub(crate) use identity::MASTERS;
