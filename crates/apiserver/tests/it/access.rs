//! Tokens, RBAC, impersonation and reviews.

use astrago_apiserver::Identity;
use serde_json::{Value, json};

use crate::plane::Plane;

const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    })
}

#[tokio::test]
async fn a_user_may_what_a_binding_says_and_no_more() {
    let plane = Plane::start().await;
    let ann = Identity::user("ann", &[]);
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({ "metadata": { "name": "a" } });
    let (code, refused) = plane.request_as(&ann, "POST", maps, &map).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "configmaps is forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let (code, made) = plane.post(BINDINGS, binding("ann", "edit", "ann")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(plane.request_as(&ann, "POST", maps, &map).await.0, 201);
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(
        plane
            .request_as(&ann, "GET", elsewhere, &Value::Null)
            .await
            .0,
        403
    );
    assert_eq!(
        plane
            .request_as(&ann, "GET", "/api/v1/configmaps", &Value::Null)
            .await
            .0,
        403
    );
    assert_eq!(
        plane
            .request_as(&ann, "POST", BINDINGS, &binding("x", "edit", "bob"))
            .await
            .0,
        403
    );
}

#[tokio::test]
async fn nobody_hands_out_what_they_do_not_have() {
    let plane = Plane::start().await;
    plane.post(BINDINGS, binding("ann", "admin", "ann")).await;
    let ann = Identity::user("ann", &[]);
    let (code, made) = plane
        .request_as(&ann, "POST", BINDINGS, &binding("bob", "view", "bob"))
        .await;
    assert_eq!(code, 201, "{made}");
    let (code, refused) = plane
        .request_as(
            &ann,
            "POST",
            BINDINGS,
            &binding("x", "cluster-admin", "ann"),
        )
        .await;
    assert_eq!(code, 403, "{refused}");
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = json!({
        "metadata": { "name": "r" },
        "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }],
    });
    assert_eq!(plane.request_as(&ann, "POST", roles, &role).await.0, 403);
}

#[tokio::test]
async fn reviews_agree_with_what_is_enforced() {
    let plane = Plane::start().await;
    plane.post(BINDINGS, binding("ann", "view", "ann")).await;
    let ann = Identity::user("ann", &[]);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let ask = async |verb: &str, namespace: &str| {
        let attributes = json!({ "verb": verb, "resource": "pods", "namespace": namespace });
        let review = json!({ "spec": { "resourceAttributes": attributes } });
        plane.request_as(&ann, "POST", path, &review).await.1["status"]["allowed"].clone()
    };
    assert_eq!(ask("list", "default").await, true);
    assert_eq!(ask("delete", "default").await, false);
    assert_eq!(ask("list", "kube-system").await, false);
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, review) = plane.request_as(&ann, "POST", whoami, &json!({})).await;
    assert_eq!(review["status"]["userInfo"]["username"], "ann");
}

#[tokio::test]
async fn a_review_has_no_table() {
    let plane = Plane::start().await;
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body("{}".into())
        .unwrap();
    let refused = plane.client().request_text(request).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 406));
}

#[tokio::test]
async fn tokens_in_secrets_and_of_service_accounts_authenticate() {
    use base64::Engine as _;
    let plane = Plane::start().await;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let secret = json!({
        "metadata": { "name": "ann" }, "type": "astrago.io/token",
        "data": { "user": encode("ann"), "token": encode("s3cret") },
    });
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    assert_eq!(plane.request_with_token("s3cret", whoami).await.0, 401);
    plane
        .post("/api/v1/namespaces/kube-system/secrets", secret)
        .await;
    let (code, review) = plane.request_with_token("s3cret", whoami).await;
    assert_eq!(
        (code, &review["status"]["userInfo"]["username"]),
        (201, &json!("ann"))
    );
    plane
        .delete("/api/v1/namespaces/kube-system/secrets/ann", json!({}))
        .await;
    assert_eq!(plane.request_with_token("s3cret", whoami).await.0, 401);

    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, answer) = plane.post(path, json!({ "spec": {} })).await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap();
    let (_, review) = plane.request_with_token(token, whoami).await;
    let user = &review["status"]["userInfo"]["username"];
    assert_eq!(*user, json!("system:serviceaccount:default:default"));
    let forged = format!("{}x", &token[..token.len() - 1]);
    assert_eq!(plane.request_with_token(&forged, whoami).await.0, 401);
}

#[tokio::test]
async fn impersonation_is_a_right_of_its_own() {
    let plane = Plane::start().await;
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let ann = Identity::user("ann", &[]);
    let headers = [("impersonate-user", "bob"), ("impersonate-group", "team")];
    let (code, _) = plane
        .request_full(&ann, "POST", whoami, &headers, &json!({}))
        .await;
    assert_eq!(code, 403);
    let (code, review) = plane
        .request_full(&Identity::admin(), "POST", whoami, &headers, &json!({}))
        .await;
    assert_eq!(code, 201);
    assert_eq!(review["status"]["userInfo"]["username"], "bob");
    assert_eq!(
        review["status"]["userInfo"]["groups"],
        json!(["team", "system:authenticated"])
    );
}

#[tokio::test]
async fn the_name_of_the_administrator_is_nobody_elses() {
    use base64::Engine as _;
    let plane = Plane::start().await;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let whoami = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for (groups, want) in [("", 401), ("system:masters", 201)] {
        let secret = json!({
            "metadata": { "generateName": "admin-" }, "type": "astrago.io/token",
            "data": { "user": encode("admin"), "groups": encode(groups), "token": encode(&format!("t{groups}")) },
        });
        let secrets = "/api/v1/namespaces/kube-system/secrets";
        assert_eq!(plane.post(secrets, secret).await.0, 201);
        let token = format!("t{groups}");
        assert_eq!(plane.request_with_token(&token, whoami).await.0, want);
    }
}

#[tokio::test]
async fn aggregating_roles_show_the_rules_that_they_gather() {
    let plane = Plane::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let role = json!({ "metadata": { "name": "all" }, "aggregationRule": { "clusterRoleSelectors": [
        { "matchExpressions": [{ "key": "part", "operator": "Exists" }] }] } });
    assert_eq!(plane.post(roles, role).await.0, 201);
    let rules = json!([{ "verbs": ["get"], "apiGroups": ["x"], "resources": ["y"] }]);
    let part = json!({ "metadata": { "name": "part", "labels": { "part": "1" } }, "rules": rules });
    assert_eq!(plane.post(roles, part).await.0, 201);
    let shown = async || plane.get(&format!("{roles}/all")).await.1["rules"].clone();
    crate::plane::eventually("the rules are there", async || shown().await == rules).await;
    plane.delete(&format!("{roles}/part"), json!({})).await;
    crate::plane::eventually("the rules are gone", async || shown().await == json!([])).await;
}
