//! Users: their tokens, and their rights in their namespace.
//!
//! A user is a Secret with the digest of their token, a namespace that carries their label, and a
//! RoleBinding there. So kubectl, REST and page agree on who may do what.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, RoleBinding, RoleRef, Subject};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::namespaces::Purpose;
use super::{Error, Result, namespaces};
use crate::context::Context;
use crate::form::name;
use crate::identity::{Access, Caller, MASTERS, is_reserved};
use crate::model::{CreatedUser, NewUser, User, WhoAmI};
use crate::names;

/// Where the embedded API server looks for users' tokens, and of what type they are.
pub(super) const TOKEN_NAMESPACE: &str = "kube-system";
pub(super) const TOKEN_TYPE: &str = "astrago.io/token";

pub(crate) fn who_am_i(context: &Context, caller: &Caller) -> WhoAmI {
    WhoAmI {
        // What the form takes as `user_id`; names with colons it does not.
        user: match name::user_label(&caller.user) {
            Ok(_) => caller.user.clone(),
            Err(_) => caller.label().unwrap_or_else(|_| caller.user.clone()),
        },
        groups: caller.groups.clone(),
        admin: caller.is_admin(),
        namespace: namespaces::own(context, caller),
    }
}

/// Adds a user: namespace, rights, token. Asked to, it gives one that exists a new token.
pub(crate) async fn add(
    context: &Context,
    caller: &Caller,
    wanted: &NewUser,
) -> Result<CreatedUser> {
    if !context.manages_users {
        return Err(Error::users_are_the_clusters());
    }
    context
        .gate
        .demand(caller, &Access::core("create", "secrets", TOKEN_NAMESPACE))
        .await?;
    let user = name::user_label(&wanted.name).map_err(|message| Error::invalid("name", message))?;
    if user != wanted.name {
        let message =
            format!("must consist of lower-case letters, digits and dashes; {user:?} would do");
        return Err(Error::invalid("name", message));
    }
    if is_reserved(&user) {
        let message = format!("{user:?} is the administrator's own name; choose another");
        return Err(Error::invalid("name", message));
    }
    let namespace = match &wanted.namespace {
        Some(namespace) => namespace.clone(),
        None => namespaces::natural(&user).map_err(|message| Error::invalid("name", message))?,
    };
    name::check_label(&namespace).map_err(|message| Error::invalid("namespace", message))?;
    let secrets: Api<Secret> = Api::namespaced(context.gate.client(caller), TOKEN_NAMESPACE);
    let known = secrets
        .get_opt(&secret_name(&user))
        .await
        .map_err(|error| Error::cluster("look for the user", error))?;
    if known.is_some() && !wanted.rotate {
        return Err(Error::Conflict(format!(
            "there is already a user {user:?}; rotate gives them a new token and revokes the present one"
        )));
    }
    namespaces::make(context, &namespace, &user, &user, Purpose::Home).await?;
    let token = crate::random_text(40);
    let digest = hex::encode(Sha256::digest(token.as_bytes()));
    let groups = if wanted.admin { MASTERS } else { "" };
    let data = [
        ("user", user.as_str()),
        ("groups", groups),
        ("token-sha256", digest.as_str()),
    ];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.as_bytes().to_vec())));
    let labels = [
        (names::USER.to_owned(), user.clone()),
        (names::USER_NAMESPACE.to_owned(), namespace.clone()),
    ];
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(&user)),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        type_: Some(TOKEN_TYPE.to_owned()),
        data: Some(data.into()),
        ..Secret::default()
    };
    let parameters = PatchParams::apply("astrago-rest").force();
    secrets
        .patch(&secret_name(&user), &parameters, &Patch::Apply(&secret))
        .await
        .map_err(|error| Error::cluster("store the token", error))?;
    Ok(CreatedUser {
        name: user,
        namespace,
        admin: wanted.admin,
        token,
    })
}

pub(crate) async fn list(context: &Context, caller: &Caller) -> Result<Vec<User>> {
    let secrets: Api<Secret> = Api::namespaced(context.gate.client(caller), TOKEN_NAMESPACE);
    // Further tokens of a user do not carry this label.
    let parameters = ListParams::default().labels(names::USER_NAMESPACE);
    let found = secrets
        .list(&parameters)
        .await
        .map_err(|error| Error::cluster("list the users", error))?;
    let text = |secret: &Secret, key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    let users = found
        .iter()
        .filter(|secret| secret.type_.as_deref() == Some(TOKEN_TYPE));
    Ok(users
        .map(|secret| User {
            name: text(secret, "user").unwrap_or_default(),
            namespace: secret.labels().get(names::USER_NAMESPACE).cloned(),
            admin: text(secret, "groups").is_some_and(|groups| groups.contains(MASTERS)),
            created_at: secret.creation_timestamp().map(|time| time.0),
        })
        .collect())
}

/// Takes all of a user's tokens away; their namespace and jobs stay.
pub(crate) async fn remove(context: &Context, caller: &Caller, user: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(context.gate.client(caller), TOKEN_NAMESPACE);
    match secrets
        .delete(&secret_name(user), &DeleteParams::default())
        .await
    {
        Ok(_) => super::tokens::revoke_all(context, user).await,
        Err(kube::Error::Api(status)) if status.code == 404 => Err(Error::NotFound {
            kind: "user",
            name: user.to_owned(),
            namespace: String::new(),
        }),
        Err(error) => Err(Error::cluster("remove the user", error)),
    }
}

fn secret_name(user: &str) -> String {
    format!("user-{user}")
}

/// The ClusterRole that every user has, in their own namespace only.
const USER_ROLE: &str = "astrago-user";

/// Gives a user their rights in a namespace.
///
/// `subject` is their full name, as the API server knows them.
pub(crate) async fn grant(context: &Context, namespace: &str, subject: &str) -> Result<()> {
    let bindings: Api<RoleBinding> = Api::namespaced(context.client.clone(), namespace);
    let binding = RoleBinding {
        metadata: ObjectMeta {
            name: Some(USER_ROLE.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned())].into()),
            ..ObjectMeta::default()
        },
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: USER_ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "User".to_owned(),
            name: subject.to_owned(),
            namespace: None,
        }]),
    };
    created(
        bindings.create(&PostParams::default(), &binding).await,
        "grant the user's rights",
    )
}

/// Installs the role that users are bound to.
pub(crate) async fn install_role(context: &Context) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(context.client.clone());
    if let Ok(Some(role)) = roles.get_opt(USER_ROLE).await {
        return update_role(context, &roles, &role).await;
    }
    let role = ClusterRole {
        metadata: ObjectMeta {
            name: Some(USER_ROLE.to_owned()),
            labels: Some([(names::MANAGED_BY.to_owned(), names::ASTRAGO.to_owned())].into()),
            ..ObjectMeta::default()
        },
        rules: Some(user_rules()),
        ..ClusterRole::default()
    };
    created(
        roles.create(&PostParams::default(), &role).await,
        "install the role of users",
    )
}

/// Brings the rules of an older version up to date, as Kubernetes does with its own roles: unless they are said to be
/// somebody else's. On a cluster they are the administrator's, and we may not.
async fn update_role(
    context: &Context,
    roles: &Api<ClusterRole>,
    role: &ClusterRole,
) -> Result<()> {
    let keeps = role
        .annotations()
        .get(names::AUTOUPDATE)
        .map(String::as_str)
        == Some("false");
    let rules = user_rules();
    if !context.manages_users || keeps || role.rules.as_ref() == Some(&rules) {
        return Ok(());
    }
    let patch = Patch::Merge(json!({ "rules": rules }));
    let updated = roles
        .patch(USER_ROLE, &PatchParams::default(), &patch)
        .await;
    updated
        .map(|_| ())
        .map_err(|error| Error::cluster("update the role of users", error))
}

fn user_rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|text| (*text).to_owned()).collect()),
        verbs: verbs.iter().map(|text| (*text).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let all = [
        "create",
        "get",
        "list",
        "watch",
        "update",
        "patch",
        "delete",
        "deletecollection",
    ];
    let read = ["get", "list", "watch"];
    vec![
        rule(
            "trainer.kubeflow.org",
            &["trainjobs", "trainingruntimes"],
            &all,
        ),
        rule(
            "kubeflow.org",
            &[
                "pytorchjobs",
                "tfjobs",
                "mpijobs",
                "xgboostjobs",
                "paddlejobs",
                "mxjobs",
                "jaxjobs",
            ],
            &all,
        ),
        rule(
            "",
            &["configmaps", "secrets", "persistentvolumeclaims"],
            &all,
        ),
        rule("", &["pods"], &["get", "list", "watch", "delete"]),
        // Which of the two verbs is asked for depends on the version of Kubernetes.
        rule("", &["pods/exec", "pods/portforward"], &["create", "get"]),
        rule(
            "",
            &[
                "pods/log",
                "events",
                "services",
                "resourcequotas",
                "limitranges",
            ],
            &read,
        ),
        rule("batch", &["jobs"], &read),
        rule("jobset.x-k8s.io", &["jobsets"], &read),
    ]
}

fn created<T>(result: kube::Result<T>, operation: &'static str) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(Error::cluster(operation, error)),
    }
}
