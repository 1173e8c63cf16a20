//! Namespaces and whose they are.
//!
//! A namespace with the user label belongs to that user alone. Others (`default`, those that an
//! administrator made with kubectl) belong to nobody, and RBAC decides who may use them.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};

use super::{Error, Result};
use crate::context::Context;
use crate::form::name;
use crate::identity::Caller;
use crate::names;
use crate::world::Key;

/// Namespaces that are the system's own and never a user's.
const RESERVED: [&str; 4] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "astrago-system",
];

/// Makes sure that `namespace` exists and that jobs of `user` may run there.
pub(crate) async fn ensure(
    context: &Context,
    caller: &Caller,
    namespace: &str,
    user: &str,
) -> Result<()> {
    if RESERVED.contains(&namespace) {
        return Err(Error::ForbiddenField {
            field: "namespace",
            message: format!("{namespace:?} belongs to the system"),
        });
    }
    let known = context
        .world
        .read()
        .namespaces
        .get(&Key::new("", namespace))
        .cloned();
    if let Some(known) = known {
        return check_owner(&known, user);
    }
    if !caller.is_admin() && !is_natural(namespace, user) {
        return Err(Error::ForbiddenField {
            field: "namespace",
            message: format!("{namespace:?} is not yours"),
        });
    }
    // Who acts for another makes it for them; the other is known to the cluster by the same name.
    let subject = if caller.is_admin() {
        user
    } else {
        &caller.user
    };
    make(context, namespace, user, subject).await
}

/// Makes a namespace for a user, or finds that it already is theirs.
///
/// `user` is their label, `subject` their full name, as the API server knows them.
pub(crate) async fn make(
    context: &Context,
    namespace: &str,
    user: &str,
    subject: &str,
) -> Result<()> {
    let api: Api<Namespace> = Api::all(context.client.clone());
    let labels = [
        (names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned()),
        (names::USER.to_owned(), user.to_owned()),
    ];
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(namespace.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => {
            context.idempotency.forget_namespace(namespace);
            super::users::grant(context, namespace, subject).await
        }
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let existing = api
                .get(namespace)
                .await
                .map_err(|error| Error::cluster("read the namespace", error))?;
            check_owner(&existing, user)
        }
        Err(error) => Err(Error::cluster("create the namespace", error)),
    }
}

fn check_owner(namespace: &Namespace, user: &str) -> Result<()> {
    if namespace.metadata.deletion_timestamp.is_some() {
        return Err(Error::Conflict(format!(
            "namespace {:?} is being deleted",
            namespace.name_any()
        )));
    }
    match namespace.labels().get(names::USER) {
        Some(owner) if owner != user => Err(Error::ForbiddenField {
            field: "namespace",
            message: format!("{:?} belongs to another user", namespace.name_any()),
        }),
        _ => Ok(()),
    }
}

/// Whether a user may claim a namespace of this name: their own name, with or without `user-`
/// before it, dashes aside (`user123` may have `user-123`). Anything freer would let one user take
/// another's name before they arrive.
fn is_natural(namespace: &str, user: &str) -> bool {
    let plain = |text: &str| text.replace('-', "");
    let (namespace, user) = (plain(namespace), plain(user));
    namespace == user
        || namespace
            .strip_prefix("user")
            .is_some_and(|rest| rest == user)
}

/// The namespace that a user gets at sign-up.
pub(crate) fn natural(user_id: &str) -> Result<String, String> {
    let user = name::user_label(user_id)?;
    let namespace = format!("user-{user}");
    name::check_label(&namespace)?;
    Ok(namespace)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("user-123", "user123", true)]
    #[case("kim", "kim", true)]
    #[case("user-kim", "kim", true)]
    #[case("user-lee", "kim", false)]
    #[case("kim-2", "kim", false)]
    fn users_claim_only_names_of_their_own(
        #[case] namespace: &str,
        #[case] user: &str,
        #[case] want: bool,
    ) {
        assert_eq!(is_natural(namespace, user), want);
    }
}
