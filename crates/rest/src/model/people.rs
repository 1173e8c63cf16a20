//! Who uses the system.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;
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

/// How one can sign in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SignInMethods {
    /// Nobody needs to.
    pub none: bool,
    pub token: bool,
    /// With a provider: go to `/api/oidc/login?return_to=/path`.
    pub oidc: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewUser {
    #[schema(example = "user123")]
    pub name: String,
    #[serde(default)]
    pub admin: bool,
    /// Gives a user that exists a new token, and takes the one before it away.
    #[serde(default)]
    pub rotate: bool,
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

/// A token of a user, without the token itself.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Names it when it is taken back.
    pub id: String,
    pub user: String,
    /// What the user called it.
    pub name: String,
    pub created_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub expired: bool,
    /// Whether the request was made with this token.
    pub current: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    #[schema(example = "laptop", min_length = 1, max_length = 63)]
    pub name: String,
    /// From now; without it the token does not expire.
    #[schema(minimum = 60, maximum = 315_360_000)]
    pub expires_in_seconds: Option<i64>,
    /// Somebody else, for administrators.
    pub user: Option<String>,
}

#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    #[serde(flatten)]
    pub info: Token,
    /// Shown this once; only its digest is kept.
    pub token: String,
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
