//! Tokens: made, listed, ended by time, by their user and by an administrator.

use axum::http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::json;

use crate::harness::{ADMIN, Site, form_a};

#[tokio::test]
async fn a_user_makes_lists_and_takes_back_tokens_of_their_own() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    let wanted = json!({ "name": "노트북", "expires_in_seconds": 3600 });
    let made = site.post("/api/tokens", &kim, &wanted).await.ok();
    let second = made["token"].as_str().unwrap();
    assert_eq!(site.get("/api/whoami", second).await.ok()["user"], "kim");
    let listed = site.get("/api/tokens", second).await;
    assert!(!listed.text.contains(second), "a list must not show tokens");
    let listed = listed.ok();
    let of = |name: &str| {
        let all = listed.as_array().unwrap();
        all.iter()
            .find(|token| token["name"] == name)
            .unwrap()
            .clone()
    };
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(
        (&of("노트북")["current"], &of("sign-up")["current"]),
        (&json!(true), &json!(false))
    );
    let id = made["id"].as_str().unwrap();
    site.delete(&format!("/api/tokens/{id}"), &kim).await.ok();
    assert_eq!(
        site.get("/api/whoami", second).await.status,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(site.get("/api/whoami", &kim).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_token_ends_with_its_time_and_makes_none_that_outlives_it() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    let short = json!({ "name": "short", "expires_in_seconds": 100 });
    let short = site.post("/api/tokens", &kim, &short).await.ok();
    let short = short["token"].as_str().unwrap();
    let child = site
        .post("/api/tokens", short, &json!({ "name": "for ever" }))
        .await
        .ok();
    let expires: jiff::Timestamp = child["expires_at"].as_str().unwrap().parse().unwrap();
    assert!(expires.as_second() <= site.plane.clock.now().as_second() + 100);
    site.plane.clock.advance(101);
    let child = child["token"].as_str().unwrap();
    // One that was asked about may be believed for a moment; one that was not is asked about now.
    assert_eq!(
        site.get("/api/whoami", child).await.status,
        StatusCode::UNAUTHORIZED
    );
    let kube = kube::Api::<k8s_openapi::api::core::v1::Secret>::namespaced(
        site.plane.client.clone(),
        "kube-system",
    );
    assert!(
        kube.list(&kube::api::ListParams::default())
            .await
            .unwrap()
            .items
            .len()
            >= 3
    );
}

#[tokio::test]
async fn nobody_touches_the_tokens_of_others_but_an_administrator() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    let made = site
        .post("/api/tokens", &kim, &json!({ "name": "mine" }))
        .await
        .ok();
    let id = made["id"].as_str().unwrap();
    assert_eq!(
        site.get("/api/tokens?user=kim", &lee).await.status,
        StatusCode::FORBIDDEN
    );
    let forged = json!({ "name": "forged", "user": "kim" });
    assert_eq!(
        site.post("/api/tokens", &lee, &forged).await.status,
        StatusCode::FORBIDDEN
    );
    let forged = json!({ "name": "forged", "user": "admin" });
    assert_eq!(
        site.post("/api/tokens", &lee, &forged).await.status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        site.delete(&format!("/api/tokens/{id}"), &lee).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        site.delete("/api/tokens/root", &lee).await.status,
        StatusCode::NOT_FOUND
    );
    let theirs = json!({ "name": "from the administrator", "user": "kim" });
    let theirs = site.post("/api/tokens", ADMIN, &theirs).await.ok();
    let whoami = site
        .get("/api/whoami", theirs["token"].as_str().unwrap())
        .await
        .ok();
    assert_eq!(
        (&whoami["user"], &whoami["admin"]),
        (&json!("kim"), &json!(false))
    );
    site.request(Method::DELETE, "/api/users/kim", ADMIN, None, &[])
        .await
        .ok();
    for token in [
        made["token"].as_str().unwrap(),
        theirs["token"].as_str().unwrap(),
        &kim,
    ] {
        assert_eq!(
            site.get("/api/whoami", token).await.status,
            StatusCode::UNAUTHORIZED
        );
    }
}

#[tokio::test]
async fn wrong_tokens_are_explained() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    for (body, field) in [
        (json!({ "name": "" }), "name"),
        (json!({ "name": "a".repeat(64) }), "name"),
        (json!({ "name": "a\nb" }), "name"),
        (
            json!({ "name": "a", "expires_in_seconds": 0 }),
            "expires_in_seconds",
        ),
        (
            json!({ "name": "a", "expires_in_seconds": -1 }),
            "expires_in_seconds",
        ),
    ] {
        let answer = site.post("/api/tokens", &kim, &body).await;
        assert_eq!(answer.fields(), [field], "{body}: {}", answer.text);
    }
}

#[tokio::test]
async fn streams_end_with_the_token_that_they_were_asked_with() {
    let site = Site::start().await;
    let kim = site.user("kim").await;
    let made = site
        .post("/api/tokens", &kim, &json!({ "name": "mine" }))
        .await
        .ok();
    let (id, token) = (
        made["id"].as_str().unwrap(),
        made["token"].as_str().unwrap(),
    );
    let job = site
        .post("/api/trainjob/create", &kim, &form_a("kim", "user-kim"))
        .await
        .ok();
    let name = job["trainjob_name"].as_str().unwrap_or_default();
    let logs = format!("/api/trainjobs/{name}/logs/stream?namespace=user-kim");
    let mut streams = Vec::new();
    for path in ["/api/trainjobs/stream", &logs] {
        let stream = site.send(Method::GET, path, token, None, &[]).await;
        assert_eq!(stream.status(), StatusCode::OK, "{path}");
        streams.push(stream.into_body());
    }
    site.delete(&format!("/api/tokens/{id}"), &kim).await.ok();
    for stream in streams {
        // It would go on for ever otherwise.
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), stream.collect());
        assert!(ended.await.is_ok());
    }
}

#[tokio::test]
async fn the_name_of_the_administrator_is_not_given_away() {
    let site = Site::start().await;
    let answer = site
        .post("/api/users", ADMIN, &json!({ "name": "admin" }))
        .await;
    assert_eq!(answer.fields(), ["name"], "{}", answer.text);
}

#[tokio::test]
async fn a_user_is_not_given_another_token_by_accident() {
    let site = Site::start().await;
    let first = site.user("kim").await;
    let again = site
        .post("/api/users", ADMIN, &json!({ "name": "kim" }))
        .await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.text);
    site.get("/api/whoami", &first).await.ok();
    let rotated = json!({ "name": "kim", "rotate": true });
    let second = site.post("/api/users", ADMIN, &rotated).await.ok();
    let second = second["token"].as_str().unwrap();
    site.get("/api/whoami", second).await.ok();
}
