//! Two users do not see, guess or influence each other's things.

use astrago_api::TrainJob;
use astrago_testkit::eventually;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{ADMIN, Site, form_a};

/// kim's job `kimjob`.
async fn job_of_kim(site: &Site, kim: &str) {
    let mut form = form_a("kim", "user-kim");
    form["name"] = json!("kimjob");
    site.post("/api/trainjob/create", kim, &form).await.ok();
    let status = "/api/trainjob/kimjob/status?namespace=user-kim";
    site.until(status, kim, |_| true).await;
}

#[track_caller]
fn forbidden<T: std::fmt::Debug>(result: kube::Result<T>) {
    match result {
        Err(kube::Error::Api(status)) => assert_eq!(status.code, 403, "{status:?}"),
        other => panic!("allowed, or failed for another reason: {other:?}"),
    }
}

#[tokio::test]
async fn a_user_cannot_act_as_another_or_in_their_namespace() {
    let site = Site::start().await;
    let (_kim, lee) = (site.user("kim").await, site.user("lee").await);
    let before = site.traces().await;
    for (form, field) in [
        (form_a("kim", "user-kim"), "user_id"),
        (form_a("kim", "user-lee"), "user_id"),
        (form_a("lee", "user-kim"), "namespace"),
        (form_a("lee", "kube-system"), "namespace"),
        (form_a("lee", "default"), ""),
        (form_a("lee", "nobodys"), "namespace"),
        (form_a("admin", "user-lee"), "user_id"),
    ] {
        let answer = site.post("/api/trainjob/create", &lee, &form).await;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "{form}: {}",
            answer.text
        );
        if !field.is_empty() {
            assert_eq!(answer.fields(), [field], "{form}: {}", answer.text);
        }
    }
    assert_eq!(site.traces().await, before);
}

#[tokio::test]
async fn kubectl_shows_a_user_nothing_of_another() {
    let site = Site::start().await;
    let (kim, _lee) = (site.user("kim").await, site.user("lee").await);
    job_of_kim(&site, &kim).await;
    let lee = || site.kube("lee");
    let everything = ListParams::default();
    let jobs: Api<TrainJob> = Api::namespaced(lee(), "user-kim");
    forbidden(jobs.get("kimjob").await);
    forbidden(jobs.list(&everything).await);
    forbidden(Api::<TrainJob>::all(lee()).list(&everything).await);
    forbidden(jobs.delete("kimjob", &DeleteParams::default()).await);
    let patch = Patch::Merge(json!({ "spec": { "suspend": true } }));
    forbidden(jobs.patch("kimjob", &PatchParams::default(), &patch).await);
    forbidden(
        Api::<ConfigMap>::namespaced(lee(), "user-kim")
            .list(&everything)
            .await,
    );
    forbidden(
        Api::<Secret>::namespaced(lee(), "user-kim")
            .list(&everything)
            .await,
    );
    forbidden(
        Api::<Secret>::namespaced(lee(), "kube-system")
            .list(&everything)
            .await,
    );
    forbidden(
        Api::<Event>::namespaced(lee(), "user-kim")
            .list(&everything)
            .await,
    );
    let pods: Api<Pod> = Api::namespaced(lee(), "user-kim");
    forbidden(pods.list(&everything).await);
    forbidden(
        pods.logs("kimjob-node-0-0-abcde", &LogParams::default())
            .await,
    );
    forbidden(Api::<Namespace>::all(lee()).list(&everything).await);
    // Nor can they give themselves the rights.
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": { "name": "mine" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "lee" }],
    }))
    .unwrap();
    for namespace in ["user-kim", "user-lee"] {
        let bindings: Api<RoleBinding> = Api::namespaced(lee(), namespace);
        forbidden(bindings.create(&PostParams::default(), &binding).await);
    }
    let wide = ClusterRoleBinding {
        metadata: binding.metadata.clone(),
        role_ref: binding.role_ref.clone(),
        subjects: binding.subjects.clone(),
    };
    forbidden(
        Api::<ClusterRoleBinding>::all(lee())
            .create(&PostParams::default(), &wide)
            .await,
    );
    // Nor take over the namespace by its label.
    let label = Patch::Merge(json!({ "metadata": { "labels": { "astrago.io/user": "lee" } } }));
    let namespaces: Api<Namespace> = Api::all(lee());
    forbidden(
        namespaces
            .patch("user-kim", &PatchParams::default(), &label)
            .await,
    );
    let own: Api<TrainJob> = Api::namespaced(lee(), "user-lee");
    assert!(own.list(&everything).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn impersonation_headers_of_a_user_are_not_passed_on() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    job_of_kim(&site, &kim).await;
    let path = "/api/trainjobs/kimjob?namespace=user-kim";
    for headers in [
        [
            ("impersonate-user", "kim"),
            ("impersonate-group", "system:masters"),
        ],
        [
            ("x-remote-user", "kim"),
            ("x-remote-group", "system:masters"),
        ],
    ] {
        let answer = site.request(Method::GET, path, &lee, None, &headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
    }
}

#[tokio::test]
async fn streams_and_lists_have_only_what_their_reader_may_see() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    let stream = site
        .send(Method::GET, "/api/trainjobs/stream", &lee, None, &[])
        .await;
    assert_eq!(stream.status(), StatusCode::OK);
    let foreign = site
        .get("/api/trainjobs/stream?namespace=user-kim", &lee)
        .await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
    job_of_kim(&site, &kim).await;
    let mut form = form_a("lee", "user-lee");
    form["name"] = json!("leejob");
    site.post("/api/trainjob/create", &lee, &form).await.ok();
    let mut body = stream.into_body();
    let mut seen = String::new();
    while !seen.contains("leejob") {
        let frame = tokio::time::timeout(std::time::Duration::from_mins(1), body.frame());
        let frame = frame.await.expect("lee's job is told").unwrap().unwrap();
        seen.push_str(&String::from_utf8_lossy(
            &frame.into_data().unwrap_or_default(),
        ));
    }
    assert!(!seen.contains("kimjob"), "{seen}");
    for path in [
        "/api/trainjobs",
        "/api/trainjobs?archived=true",
        "/api/queue",
        "/api/nodes",
        "/api/namespaces",
    ] {
        let answer = site.get(path, &lee).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(!answer.text.contains("kimjob"), "{path}: {}", answer.text);
        assert!(!answer.text.contains("user-kim"), "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn the_history_of_a_namespace_stays_with_its_first_user() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    job_of_kim(&site, &kim).await;
    let shown = "/api/trainjobs/kimjob?namespace=user-kim";
    let listed = "/api/trainjobs?archived=true&namespace=user-kim";
    site.delete("/api/trainjob/kimjob?namespace=user-kim", &kim)
        .await
        .ok();
    site.until(shown, &kim, |job| job["archived"] == true).await;
    assert_eq!(site.get(shown, &lee).await.status, StatusCode::FORBIDDEN);

    // The administrator removes kim and gives the namespace's name to lee.
    site.delete("/api/users/kim", ADMIN).await.ok();
    let namespaces: Api<Namespace> = Api::all(site.plane.client.clone());
    namespaces
        .delete("user-kim", &DeleteParams::default())
        .await
        .unwrap();
    eventually("the namespace is gone", || async {
        match namespaces.get_opt("user-kim").await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let given = json!({ "name": "lee", "namespace": "user-kim", "rotate": true });
    let lee = site.post("/api/users", ADMIN, &given).await.ok()["token"]
        .as_str()
        .unwrap()
        .to_owned();
    site.until("/api/trainjobs?namespace=user-kim", &lee, |_| true)
        .await;
    for path in [
        "",
        "/events",
        "/manifest",
        "/clone",
        "/logs",
        "/metrics",
        "/usage",
        "/logs/download",
    ] {
        let path = shown.replace('?', &format!("{path}?"));
        // That lee had no rights here is believed for a few seconds more.
        let answer = eventually(&path, || async {
            let answer = site.get(&path, &lee).await;
            match answer.status {
                StatusCode::FORBIDDEN => Err(answer.text),
                _ => Ok(answer),
            }
        })
        .await;
        assert_eq!(
            answer.status,
            StatusCode::NOT_FOUND,
            "{path}: {}",
            answer.text
        );
    }
    assert_eq!(site.get(listed, &lee).await.ok()["total"], 0);
    assert_eq!(site.get(listed, ADMIN).await.ok()["total"], 1);
}

#[tokio::test]
async fn a_service_account_of_a_namespace_is_no_user_of_the_api() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    job_of_kim(&site, &kim).await;
    let client: Client = site.plane.client.clone();
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(client, "user-kim");
    eventually("the account is there", || async {
        match accounts.get_opt("default").await {
            Ok(Some(_)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let request: k8s_openapi::api::authentication::v1::TokenRequest = serde_json::from_value(
        json!({ "metadata": {}, "spec": { "audiences": [], "expirationSeconds": 600 } }),
    )
    .unwrap();
    let token = accounts
        .create_token_request("default", &PostParams::default(), &request)
        .await
        .unwrap();
    let token = token.status.unwrap().token.unwrap();
    let answer = site
        .get("/api/trainjobs/kimjob?namespace=user-kim", &token)
        .await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
    // One that was made for somebody else says nothing here.
    let request: k8s_openapi::api::authentication::v1::TokenRequest = serde_json::from_value(
        json!({ "metadata": {}, "spec": { "audiences": ["vault"], "expirationSeconds": 600 } }),
    )
    .unwrap();
    let token = accounts
        .create_token_request("default", &PostParams::default(), &request)
        .await
        .unwrap();
    let token = token.status.unwrap().token.unwrap();
    assert_eq!(
        site.get("/api/whoami", &token).await.status,
        StatusCode::UNAUTHORIZED
    );
}

/// Whoever made the namespace was stopped before they could give the rights in it.
#[tokio::test]
async fn a_namespace_that_was_made_without_its_rights_gets_them_with_the_next_job() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    let lee = site.user("lee").await;
    let bindings: Api<RoleBinding> = Api::namespaced(site.plane.client.clone(), "user-kim");
    let delete = DeleteParams::default();
    bindings.delete("astrago-user", &delete).await.unwrap();
    let body = form_a("kim", "user-kim");
    let lees = site.post("/api/trainjob/create", &lee, &body).await;
    assert_eq!(lees.status, StatusCode::FORBIDDEN, "{lees:?}");
    site.post("/api/trainjob/create", &kim, &body).await.ok();
    assert!(bindings.get_opt("astrago-user").await.unwrap().is_some());
    // Whoever adds the user once more finishes it, too; but not what was taken away later.
    let again = json!({ "name": "kim", "rotate": true });
    for (wait, want) in [(0, true), (3601, false)] {
        bindings.delete("astrago-user", &delete).await.unwrap();
        site.plane.clock.advance(wait);
        site.post("/api/users", ADMIN, &again).await.ok();
        let binding = bindings.get_opt("astrago-user").await.unwrap();
        assert_eq!(binding.is_some(), want, "after {wait} seconds");
    }
}

/// On a cluster the server has the rights of deploy/ and no others.
#[tokio::test]
async fn the_rights_of_deploy_are_enough_to_make_code_again_that_a_job_needs() {
    let mut site = Site::start().await;
    let kim = site.user("kim").await;
    let listing = [("train.py", false, &b"print()"[..])];
    let archive = astrago_rest::snapshot::pack(listing).unwrap();
    let upload = Request::post("/api/snapshots?namespace=user-kim")
        .header("authorization", format!("Bearer {kim}"))
        .header("host", "localhost")
        .body(Body::from(archive))
        .unwrap();
    let answer = site.router.clone().oneshot(upload).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let stored: Value = serde_json::from_slice(&bytes).unwrap();
    let mut form = form_a("kim", "user-kim");
    form.as_object_mut().unwrap().remove("training_code");
    form["snapshot"] = stored["digest"].clone();
    site.post("/api/trainjob/create", &kim, &form).await.ok();
    let maps: Api<ConfigMap> = Api::namespaced(site.plane.client.clone(), "user-kim");
    let ours = ListParams::default().labels("astrago.io/snapshot");
    let map = maps.list(&ours).await.unwrap().items.remove(0);

    let roles = include_str!("../../../../deploy/kustomize/base/roles.yaml");
    let role = roles.split("\n---").next().unwrap();
    let role: Value = serde_saphyr::from_str(role).unwrap();
    let role: ClusterRole = serde_json::from_value(role).unwrap();
    site.plane.create_cluster(&role).await;
    let binding = json!({
        "metadata": { "name": "server" }, "subjects": [{ "kind": "User", "name": "server", "apiGroup": "rbac.authorization.k8s.io" }],
        "roleRef": { "kind": "ClusterRole", "name": "astrago-server", "apiGroup": "rbac.authorization.k8s.io" },
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    site.plane.create_cluster(&binding).await;
    let delete = DeleteParams::default();
    maps.delete(map.metadata.name.as_deref().unwrap(), &delete)
        .await
        .unwrap();
    let server = site.kube("server");
    site.restart_with(|options| options.client = server.clone())
        .await;
    eventually("the code is there again", || async {
        let found = maps.list(&ours).await.unwrap().items;
        found.into_iter().next().ok_or("not yet")
    })
    .await;
}

#[tokio::test]
async fn an_older_versions_rights_of_users_are_brought_up_to_date_unless_they_are_to_stay() {
    let mut site = Site::start().await;
    let roles: Api<ClusterRole> = Api::all(site.plane.client.clone());
    let rules = roles.get("astrago-user").await.unwrap().rules;
    for (autoupdate, want) in [("true", rules), ("false", None)] {
        let patch = json!({
            "metadata": { "annotations": { "rbac.authorization.kubernetes.io/autoupdate": autoupdate } },
            "rules": null,
        });
        let patch = Patch::Merge(patch);
        let parameters = PatchParams::default();
        roles
            .patch("astrago-user", &parameters, &patch)
            .await
            .unwrap();
        site.restart_with(|_| {}).await;
        let role = roles.get("astrago-user").await.unwrap();
        let rules = role.rules.filter(|rules| !rules.is_empty());
        assert_eq!(rules, want, "autoupdate: {autoupdate}");
    }
}

#[tokio::test]
async fn behind_a_proxy_with_tls_the_cookie_is_kept_to_tls() {
    let site = Site::start().await;
    let body = json!({ "token": ADMIN });
    for (scheme, want) in [("http", false), ("https", true)] {
        let headers = [("x-forwarded-proto", scheme)];
        let answer = site
            .send(Method::POST, "/api/session", "", Some(&body), &headers)
            .await;
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        assert_eq!(cookie.contains("; Secure"), want, "{scheme}: {cookie}");
    }
}
