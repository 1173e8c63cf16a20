//! Too many requests of one user are refused, and others go on.

use astrago_rest::{Limit, Limits};
use axum::http::{Method, StatusCode};

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
