//! Too many requests of one user are refused, and others go on.

use std::convert::Infallible;

use astrago_rest::{Limit, Limits};
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use futures::{StreamExt as _, stream};
use tokio::sync::oneshot;
use tower::ServiceExt as _;

use crate::harness::{ADMIN, Site, form_a};

#[tokio::test]
async fn a_user_who_asks_too_much_is_told_when_to_come_back() {
    let limit = |burst| Limit {
        per_second: 0.5,
        burst,
    };
    let site = Site::start_with(|options| {
        options.limits = Some(Limits {
            reads: limit(3.0),
            changes: limit(1.0),
        });
    })
    .await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    for _ in 0..3 {
        site.get("/api/trainjobs", &kim).await.ok();
    }
    let refused = site
        .send(Method::GET, "/api/trainjobs", &kim, None, &[])
        .await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "2");
    site.get("/api/trainjobs", &lee).await.ok();
    let before = site.traces().await;
    let form = form_a("lee", "user-lee");
    site.post("/api/trainjob/create", &lee, &form).await.ok();
    let more = site.post("/api/trainjob/create", &lee, &form).await;
    assert_eq!(more.json["error"]["code"], "rate_limited");
    // A ConfigMap of the framework, one with the code, and the job.
    assert_eq!(site.traces().await.len(), before.len() + 3);
    for _ in 0..10 {
        site.get("/api/trainjobs", ADMIN).await.ok();
    }
    site.plane.clock.advance(2);
    site.get("/api/trainjobs", &kim).await.ok();
}

/// A body of so many bytes that never ends, and the news that they were read.
fn endless(bytes: usize) -> (Body, oneshot::Receiver<()>) {
    let (tell, told) = oneshot::channel();
    let begun = stream::iter([Ok::<_, Infallible>(vec![b' '; bytes])]);
    let rest = stream::once(async move {
        let _ = tell.send(());
        std::future::pending().await
    });
    (Body::from_stream(begun.chain(rest)), told)
}

#[tokio::test]
async fn what_users_send_without_end_is_bounded_together() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    let send = |path: &str, token: &str, body: Body| {
        let request = Request::post(path)
            .header("host", "localhost")
            .header("authorization", format!("Bearer {token}"));
        site.router.clone().oneshot(request.body(body).unwrap())
    };
    let create = "/api/trainjob/create";
    let mut open = Vec::new();
    for _ in 0..2 {
        let (body, read) = endless(15 << 20);
        open.push(tokio::spawn(send(create, &kim, body)));
        read.await.unwrap();
    }
    let refused = send(create, &kim, endless(3 << 20).0).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let other = send(create, &lee, Body::from("{}")).await.unwrap();
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
    for request in open {
        request.abort();
        assert!(request.await.is_err_and(|error| error.is_cancelled()));
    }
    let again = send(create, &kim, Body::from("{}")).await.unwrap();
    assert_eq!(again.status(), StatusCode::UNPROCESSABLE_ENTITY);
    // Whoever has not said who they are sends a token and no more.
    let stranger = send("/api/session", "", endless(100 << 10).0)
        .await
        .unwrap();
    assert_eq!(stranger.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn answers_that_nobody_reads_count_until_they_are_given_up() {
    let site = Site::start().await;
    let (kim, lee) = (site.user("kim").await, site.user("lee").await);
    let ask = |path, token| site.send(Method::GET, path, token, None, &[]);
    let mut unread = Vec::new();
    for number in 0..200 {
        // What is sent as it happens, and what is there at once.
        let path = ["/api/trainjobs/stream", "/api/runtimes"][number % 2];
        let answer = ask(path, &kim).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}, the {number}th");
        unread.push(answer);
    }
    let refused = ask("/api/trainjobs", &kim).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(ask("/api/trainjobs", &lee).await.status(), StatusCode::OK);
    drop(unread.pop());
    for _ in 0..3 {
        // What is read makes room for the next.
        site.get("/api/trainjobs", &kim).await.ok();
    }
    drop(refused);
}

#[tokio::test]
async fn the_audit_trail_is_not_filled_by_what_was_never_done() {
    let limit = |burst| Limit {
        per_second: 0.5,
        burst,
    };
    let site = Site::start_with(|options| {
        options.limits = Some(Limits {
            reads: limit(10.0),
            changes: limit(2.0),
        });
    })
    .await;
    let kim = site.user("kim").await;
    let long = "x".repeat(30_000);
    for path in ["/api/nothing", "/api/trainjobs", &format!("/api/{long}")] {
        let answer = site.delete(path, &kim).await;
        assert!(answer.status.is_client_error(), "{path}: {}", answer.status);
    }
    let long = format!("/api/trainjob/{long}?namespace={long}");
    for want in [422, 422, 429, 429] {
        let answer = site.delete(&long, &kim).await;
        assert_eq!(answer.status.as_u16(), want, "{}", answer.text);
    }
    let trail = site.get("/api/audit", ADMIN).await.ok();
    let theirs: Vec<_> = trail["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["user"] == "kim")
        .collect();
    assert_eq!(theirs.len(), 2, "{theirs:?}");
    for entry in theirs {
        assert!(entry.to_string().len() < 3000, "{entry}");
    }
}
