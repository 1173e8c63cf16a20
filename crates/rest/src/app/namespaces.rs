//! Namespaces and whose they are.
//!
//! A namespace with the user label belongs to that user alone. Others (`default`, those that an
//! administrator made with kubectl) belong to nobody, and RBAC decides who may use them.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, ResourceQuota};
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};

use super::{Error, Result, list, quotas};
use crate::context::Context;
use crate::form::name;
use crate::identity::{Access, Caller};
use crate::model::{self, Refusal};
use crate::names;
use crate::world::Key;

/// Namespaces that are the system's own and never a user's.
const RESERVED: [&str; 4] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "astrago-system",
];

/// What a namespace is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is where its user's jobs run unless they say otherwise.
    Home,
    /// One more, for some jobs.
    Other,
}

/// The namespaces that the caller may see, with their quotas.
pub(crate) async fn visible(context: &Context, caller: &Caller) -> Result<Vec<model::Namespace>> {
    let readable = list::readable(context, caller, None).await?;
    let quotas: Api<ResourceQuota> = Api::all(context.client.clone());
    let quotas = quotas
        .list(&ListParams::default())
        .await
        .map_err(|error| Error::cluster("read the quotas", error))?;
    let mirrors = &context.world.mirrors;
    let namespaces = mirrors.namespaces.all();
    let named = namespaces.iter().map(|known| (known.name_any(), known));
    let visible = named.filter(|(name, _)| readable.may(name));
    Ok(visible
        .map(|(name, namespace)| model::Namespace {
            user: namespace.labels().get(names::USER).cloned(),
            jobs: mirrors.train_jobs.in_namespace(&name).len(),
            quota: quotas
                .iter()
                .find(|quota| quota.namespace().as_ref() == Some(&name))
                .map(quotas::view),
            name,
        })
        .collect())
}

/// The namespace in which the caller's jobs run unless they say otherwise. Another that they made, or
/// that was made for them, never becomes it.
pub(crate) fn own(context: &Context, caller: &Caller) -> Option<String> {
    let user = caller.label().ok()?;
    let mirrors = &context.world.mirrors;
    let namespaces = mirrors.namespaces.all();
    let theirs = namespaces.iter().map(|namespace| &**namespace);
    let theirs = theirs.filter(|namespace| namespace.labels().get(names::USER) == Some(&user));
    let found = home(theirs, &user, caller.is_admin());
    found.or_else(|| natural(&user).ok().filter(|_| !caller.is_admin()))
}

/// Which of a user's namespaces is their home.
fn home<'table>(
    theirs: impl Iterator<Item = &'table Namespace>,
    user: &str,
    admin: bool,
) -> Option<String> {
    let rank = |namespace: &Namespace| match namespace.name_any() {
        _ if namespace.labels().contains_key(names::HOME) => 0,
        name if is_natural(&name, user) => 1,
        // Given before homes were marked. Administrators make namespaces freely, others do not.
        _ if !admin => 2,
        _ => 3,
    };
    let best = theirs.min_by_key(|one| (rank(one), one.creation_timestamp(), one.name_any()));
    best.filter(|one| rank(one) < 3).map(ResourceExt::name_any)
}

/// Makes one more namespace for the caller.
pub(crate) async fn create(context: &Context, caller: &Caller, namespace: &str) -> Result<()> {
    name::check_label(namespace).map_err(|message| Error::invalid("name", message))?;
    let key = Key::new("", namespace);
    if context.world.mirrors.namespaces.get(&key).is_some() {
        return Err(Error::Conflict(format!(
            "there is already a namespace {namespace:?}"
        )));
    }
    let user = caller
        .label()
        .map_err(|message| Error::invalid("user", message))?;
    ensure(context, caller, namespace, &user).await?;
    // Whoever made it is to see it; a watch that is broken must not keep them, though.
    let seen = async {
        while context.world.mirrors.namespaces.get(&key).is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), seen).await;
    Ok(())
}

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
    let namespaces = &context.world.mirrors.namespaces;
    if let Some(known) = namespaces.get(&Key::new("", namespace)) {
        check_owner(&known, user)?;
        let access = Access::jobs("create", namespace);
        if is_unfinished(context, &known, &caller.user)
            && !context.gate.may(caller, &access).await?
        {
            super::users::grant(context, namespace, &caller.user).await?;
        }
        return Ok(());
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
    let purpose = if is_natural(namespace, user) {
        Purpose::Home
    } else {
        Purpose::Other
    };
    make(context, namespace, user, subject, purpose).await
}

/// So long after a namespace was made, the rights in it may still have to be given: whoever made it was stopped in between.
/// Later their absence is somebody's decision. A server that is not back within this time has lost its machine.
const UNFINISHED_SECONDS: i64 = 3600;

/// Whether a namespace was made for somebody a moment ago, so that a crash may have kept their rights from them.
fn is_unfinished(context: &Context, namespace: &Namespace, subject: &str) -> bool {
    let made_for = namespace.annotations().get(names::SUBJECT);
    let made_at = namespace.creation_timestamp();
    let age = made_at.map(|time| context.now().as_second() - time.0.as_second());
    made_for.is_some_and(|made_for| made_for == subject)
        && age.is_some_and(|age| age <= UNFINISHED_SECONDS)
}

/// Makes a namespace for a user, or finds that it already is theirs.
///
/// `user` is their label, `subject` their full name, as the API server knows them.
pub(crate) async fn make(
    context: &Context,
    namespace: &str,
    user: &str,
    subject: &str,
    purpose: Purpose,
) -> Result<()> {
    let api: Api<Namespace> = Api::all(context.client.clone());
    let mut labels: BTreeMap<String, String> = [
        (names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned()),
        (names::USER.to_owned(), user.to_owned()),
    ]
    .into();
    if purpose == Purpose::Home {
        labels.insert(names::HOME.to_owned(), "true".to_owned());
    }
    let object = Namespace {
        metadata: ObjectMeta {
            name: Some(namespace.to_owned()),
            labels: Some(labels),
            annotations: Some([(names::SUBJECT.to_owned(), subject.to_owned())].into()),
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
            check_owner(&existing, user)?;
            if is_unfinished(context, &existing, subject) {
                super::users::grant(context, namespace, subject).await?;
            }
            Ok(())
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
pub(crate) fn natural(user_id: &str) -> Result<String, Refusal> {
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

    fn made(name: &str, home: bool, age: i64) -> Namespace {
        let time = jiff::Timestamp::from_second(1_000_000 - age).unwrap();
        Namespace {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: home.then(|| [(names::HOME.to_owned(), "true".to_owned())].into()),
                creation_timestamp: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                    time,
                )),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        }
    }

    #[rstest]
    #[case::nothing_but_another(&[made("exp", false, 9)], true, None)]
    #[case::the_one_given(&[made("exp", false, 9), made("team", true, 1)], true, Some("team"))]
    #[case::of_their_name(&[made("exp", false, 9), made("user-kim", false, 1)], true, Some("user-kim"))]
    #[case::given_long_ago(&[made("exp", false, 1), made("team", false, 9)], false, Some("team"))]
    #[case::none(&[], false, None)]
    fn another_namespace_never_becomes_a_users_home(
        #[case] theirs: &[Namespace],
        #[case] admin: bool,
        #[case] want: Option<&str>,
    ) {
        assert_eq!(home(theirs.iter(), "kim", admin).as_deref(), want);
    }
}
