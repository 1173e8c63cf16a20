//! Users: their rights in their namespace.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, RoleBinding, RoleRef, Subject};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::{Error, Result};
use crate::context::Context;
use crate::names;

/// The ClusterRole that every user has, in their own namespace only.
const USER_ROLE: &str = "astrago-user";

/// Gives a user their rights in a namespace.
pub(crate) async fn grant(context: &Context, namespace: &str, user: &str) -> Result<()> {
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
            name: user.to_owned(),
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
            ],
            &all,
        ),
        rule(
            "",
            &["configmaps", "secrets", "persistentvolumeclaims"],
            &all,
        ),
        rule("", &["pods"], &["get", "list", "watch", "delete"]),
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
