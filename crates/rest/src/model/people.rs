//! Who uses the system.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    pub user: String,
    pub groups: Vec<String>,
    pub admin: bool,
    /// The namespace in which the user's jobs run.
    pub namespace: Option<String>,
}

/// Signs the page in; the token then travels in a cookie that scripts cannot read.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct SignIn {
    pub token: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewUser {
    #[schema(example = "user123")]
    pub name: String,
    #[serde(default)]
    pub admin: bool,
    /// Otherwise `user-{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedUser {
    pub name: String,
    pub namespace: String,
    pub admin: bool,
    /// Shown this once; only its digest is kept.
    pub token: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct User {
    pub name: String,
    pub namespace: Option<String>,
    pub admin: bool,
    pub created_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Audit {
    pub items: Vec<AuditEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    pub time: Timestamp,
    pub user: String,
    /// Such as `create`, `delete`, `suspend`.
    pub action: String,
    pub namespace: String,
    pub object: String,
    /// The HTTP status of the answer.
    pub status: u16,
}
