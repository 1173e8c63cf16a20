//! The caller of a request.

use std::sync::Arc;

/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const ADMIN: &str = "admin";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// A user and their groups, as RBAC subjects name them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub user: Arc<str>,
    pub uid: Arc<str>,
    pub groups: Arc<[String]>,
    pub extra: Arc<[(String, Vec<String>)]>,
}

impl Identity {
    /// A user of these groups, and of `system:authenticated`.
    pub fn user(name: &str, groups: &[&str]) -> Self {
        let mut groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        if name != ANONYMOUS && !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self {
            user: name.into(),
            uid: "".into(),
            groups: groups.into(),
            extra: [].into(),
        }
    }

    pub fn admin() -> Self {
        Self::user(ADMIN, &[MASTERS])
    }

    /// A part of this process, such as a controller; with all rights, but its own name in audit.
    pub fn component(name: &str) -> Self {
        Self::user(&format!("system:{name}"), &[MASTERS])
    }

    pub fn anonymous() -> Self {
        Self::user(ANONYMOUS, &[UNAUTHENTICATED])
    }

    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::user(
            &format!("system:serviceaccount:{namespace}:{name}"),
            &[
                "system:serviceaccounts",
                &format!("system:serviceaccounts:{namespace}"),
            ],
        )
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    pub fn is_anonymous(&self) -> bool {
        &*self.user == ANONYMOUS
    }
}
