//! Signing in with a provider that the test itself is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use astrago_rest::OidcOptions;
use astrago_testkit::eventually;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tower::ServiceExt;

use crate::harness::{Site, form_a};

/// By their ids.
type Keys = Vec<(String, Arc<EcdsaKeyPair>)>;

/// The token that a provider gives for a nonce.
type Issue = Arc<dyn Fn(&Provider, &str) -> String + Send + Sync>;

/// A small provider: one user, keys that can be changed, codes that work once.
#[derive(Clone)]
struct Provider {
    url: String,
    keys: Arc<Mutex<Keys>>,
    /// By code: the challenge and the nonce that it was asked for with.
    codes: Arc<Mutex<HashMap<String, (String, String)>>>,
    issue: Arc<Mutex<Issue>>,
    now: i64,
}

fn key() -> Arc<EcdsaKeyPair> {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    Arc::new(
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random)
            .unwrap(),
    )
}

impl Provider {
    async fn start(now: i64) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            keys: Arc::new(Mutex::new(vec![("first".to_owned(), key())])),
            codes: Arc::default(),
            issue: Arc::new(Mutex::new(Arc::new(|own, nonce| {
                own.id_token(&json!({ "nonce": nonce }))
            }))),
            now,
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(Self::discovery))
            .route("/keys", get(Self::key_set))
            .route("/token", post(Self::token))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    #[expect(clippy::unused_async, reason = "a handler")]
    async fn discovery(State(own): State<Self>) -> Json<Value> {
        let url = &own.url;
        Json(
            json!({ "issuer": url, "authorization_endpoint": format!("{url}/authorize"),
                     "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys") }),
        )
    }

    #[expect(clippy::unused_async, reason = "a handler")]
    async fn key_set(State(own): State<Self>) -> Json<Value> {
        let keys: Vec<Value> = own
            .keys
            .lock()
            .unwrap()
            .iter()
            .map(|(id, key)| {
                let point = key.public_key().as_ref();
                let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
                json!({ "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id,
                        "x": part(&point[1..33]), "y": part(&point[33..65]) })
            })
            .collect();
        Json(json!({ "keys": keys }))
    }

    #[expect(clippy::unused_async, reason = "a handler")]
    async fn token(State(own): State<Self>, body: String) -> Result<Json<Value>, StatusCode> {
        let url = reqwest::Url::parse(&format!("form:?{body}")).unwrap();
        let form: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let known = own.codes.lock().unwrap().remove(&form["code"]);
        let (challenge, nonce) = known.ok_or(StatusCode::BAD_REQUEST)?;
        let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(form["code_verifier"].as_bytes()));
        if proof != challenge || form["client_secret"] != "shared" || form["client_id"] != "astrago"
        {
            return Err(StatusCode::BAD_REQUEST);
        }
        let issue = Arc::clone(&own.issue.lock().unwrap());
        Ok(Json(
            json!({ "id_token": issue(&own, &nonce), "token_type": "Bearer" }),
        ))
    }

    /// A token with some claims changed, signed with the newest key.
    fn id_token(&self, change: &Value) -> String {
        let mut claims = json!({
            "iss": format!("{}/", self.url), "aud": "astrago", "sub": "1", "exp": self.now + 600, "iat": self.now,
            "email": "minsu.kim@lab.kr", "email_verified": true, "groups": ["team-a", "system:masters"],
        });
        for (name, value) in change.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let (id, key) = self.keys.lock().unwrap().last().unwrap().clone();
        sign(&json!({ "alg": "ES256", "kid": id }), &claims, &key)
    }
}

fn sign(head: &Value, claims: &Value, key: &EcdsaKeyPair) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(head), part(claims));
    let signature = key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// A server on a cluster whose API server is set up for the provider, or is not, and lets nobody impersonate.
async fn site_with(provider: &Provider, is_trusted: bool) -> Site {
    let url = provider.url.clone();
    Site::start_with(move |options| {
        // Some write the issuer with a slash at its end, and some without.
        let mut oidc = OidcOptions::new(&url, "astrago", "http://localhost:8000");
        oidc.client_secret = Some("shared".to_owned());
        options.oidc = Some(oidc);
        options.manages_users = false;
        let all = options.client.clone();
        options.bearer_client = Some(as_bearer(all.clone()));
        options.client = without_impersonation(all, is_trusted);
    })
    .await
}

/// Whom the API server takes the bearer of a token for.
fn named(token: &str) -> Option<(String, Vec<String>)> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let groups = claims["groups"].as_array()?.iter();
    let mut groups: Vec<String> = groups
        .map(|group| format!("oidc:{}", group.as_str().unwrap()))
        .collect();
    groups.push("system:authenticated".to_owned());
    Some((format!("oidc:{}", claims["email"].as_str()?), groups))
}

/// The API server as those see it who come with a token of the provider.
fn as_bearer(inner: Client) -> Client {
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let inner = inner.clone();
        let headers = request.headers_mut();
        let token = headers.remove("authorization");
        let token = token.and_then(|value| {
            value
                .to_str()
                .ok()?
                .strip_prefix("Bearer ")?
                .to_owned()
                .into()
        });
        let (user, groups) = token
            .and_then(|token: String| named(&token))
            .expect("an id token");
        headers.insert("impersonate-user", user.parse().unwrap());
        for group in groups {
            headers.append("impersonate-group", group.parse().unwrap());
        }
        async move { inner.send(request).await }
    });
    Client::new(service.map_err(tower::BoxError::from), "default")
}

/// The API server as our own rights let us see it.
fn without_impersonation(inner: Client, is_trusted: bool) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let inner = inner.clone();
        async move {
            if request.headers().contains_key("impersonate-user") {
                let refused = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                                      "message": "cannot impersonate", "reason": "Forbidden" });
                return Ok::<_, tower::BoxError>(answer(403, &refused));
            }
            if !request.uri().path().ends_with("/tokenreviews") {
                return Ok(inner.send(request).await?);
            }
            let bytes = request.into_body().collect().await?.to_bytes();
            let mut review: Value = serde_json::from_slice(&bytes)?;
            let token = review["spec"]["token"].as_str().unwrap();
            let who = named(token).filter(|_| is_trusted);
            review["status"] = who.map_or_else(
                || json!({ "authenticated": false }),
                |(user, groups)| json!({ "authenticated": true, "user": { "username": user, "groups": groups } }),
            );
            Ok(answer(201, &review))
        }
    });
    Client::new(service, "default")
}

fn answer(status: u16, body: &Value) -> http::Response<Body> {
    let response = http::Response::builder()
        .status(status)
        .header("content-type", "application/json");
    response
        .body(Body::from(body.to_string().into_bytes()))
        .unwrap()
}

/// The time of the in-process plane.
const NOW: i64 = 1_800_000_000;

/// A browser that has been sent to the provider and comes back with a code.
struct Browser {
    cookie: String,
    query: HashMap<String, String>,
    back: String,
}

impl Browser {
    async fn begin(site: &Site, provider: &Provider) -> Self {
        let path = "/api/oidc/login?return_to=/jobs";
        let sent = site.send(Method::GET, path, "", None, &[]).await;
        assert_eq!(sent.status(), StatusCode::SEE_OTHER);
        let url = reqwest::Url::parse(sent.headers()["location"].to_str().unwrap()).unwrap();
        assert!(
            url.as_str()
                .starts_with(&format!("{}/authorize?", provider.url))
        );
        let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let browser = Self {
            cookie: first_part(&sent.headers()["set-cookie"]),
            back: format!("/api/oidc/callback?code=the-code&state={}", query["state"]),
            query,
        };
        browser.is_let_in(provider);
        browser
    }

    /// The provider knows the code from now on.
    fn is_let_in(&self, provider: &Provider) {
        let asked = (
            self.query["code_challenge"].clone(),
            self.query["nonce"].clone(),
        );
        let mut codes = provider.codes.lock().unwrap();
        codes.insert("the-code".to_owned(), asked);
    }

    async fn come_back(&self, site: &Site) -> http::Response<axum::body::Body> {
        let headers = [("cookie", self.cookie.as_str())];
        site.send(Method::GET, &self.back, "", None, &headers).await
    }
}

fn first_part(cookie: &http::HeaderValue) -> String {
    let text = cookie.to_str().unwrap();
    text.split(';').next().unwrap().to_owned()
}

/// The cookie of a browser that has signed in.
async fn session(site: &Site, provider: &Provider) -> String {
    let browser = Browser::begin(site, provider).await;
    let signed_in = browser.come_back(site).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
    assert_eq!(signed_in.headers()["location"], "/jobs");
    let cookies = signed_in.headers().get_all("set-cookie").iter();
    let found = cookies.filter(|cookie| cookie.to_str().unwrap().contains("=session-"));
    let found: Vec<_> = found.collect();
    let text = found[0].to_str().unwrap();
    assert!(
        text.contains("HttpOnly") && text.contains("SameSite=Strict"),
        "{text}"
    );
    first_part(found[0])
}

async fn ask(
    site: &Site,
    session: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> crate::harness::Answer {
    let headers = [("cookie", session), ("origin", "http://localhost")];
    site.request(method, path, "", body, &headers).await
}

/// On a cluster: from the sign-in to a job, with the user's own token and no right to impersonate.
#[tokio::test]
async fn a_browser_signs_in_with_a_code_and_trains_as_the_user_that_the_cluster_knows() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider, true).await;
    assert_eq!(site.get("/api/session", "").await.ok()["oidc"], true);
    let session = session(&site, &provider).await;
    let whoami = ask(&site, &session, Method::GET, "/api/whoami", None)
        .await
        .ok();
    assert_eq!(
        whoami["groups"],
        json!(["oidc:team-a", "oidc:system:masters", "system:authenticated"])
    );
    assert_eq!(whoami["admin"], false);
    let (user, namespace) = (
        whoami["user"].as_str().unwrap(),
        whoami["namespace"].as_str().unwrap(),
    );
    assert_eq!(
        (user, namespace),
        ("oidc-minsu-kim-lab-kr", "user-oidc-minsu-kim-lab-kr")
    );
    let form = form_a(user, namespace);
    let made = ask(
        &site,
        &session,
        Method::POST,
        "/api/trainjob/create",
        Some(&form),
    )
    .await
    .ok();
    let name = made["trainjob_name"].as_str().unwrap();
    // A program with the same user's token sees it, and another person whose name has the same label does not.
    let status = format!("/api/trainjob/{name}/status?namespace={namespace}");
    site.until(&status, &provider.id_token(&json!({})), |_| true)
        .await;
    let twin = provider.id_token(&json!({ "email": "minsu-kim@lab.kr" }));
    assert_eq!(site.get(&status, &twin).await.status, StatusCode::FORBIDDEN);

    ask(&site, &session, Method::DELETE, "/api/session", None)
        .await
        .ok();
    let out = ask(&site, &session, Method::GET, "/api/whoami", None).await;
    assert_eq!(out.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_code_works_once_and_for_the_browser_that_asked_for_it() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider, true).await;
    let browser = Browser::begin(&site, &provider).await;
    let query = &browser.query;
    let asked = (
        query["response_type"].as_str(),
        query["code_challenge_method"].as_str(),
    );
    assert_eq!(asked, ("code", "S256"));
    assert_eq!(
        query["redirect_uri"],
        "http://localhost:8000/api/oidc/callback"
    );
    // Without the cookie of the browser that began it, somebody else's code does nothing.
    let stranger = site.get(&browser.back, "").await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        browser.come_back(&site).await.status(),
        StatusCode::SEE_OTHER
    );
    browser.is_let_in(&provider);
    let again = browser.come_back(&site).await;
    assert_eq!(
        again.status(),
        StatusCode::UNAUTHORIZED,
        "a state works once"
    );
}

#[tokio::test]
async fn who_is_not_known_to_the_cluster_is_told_what_is_missing() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider, false).await;
    let answer = Browser::begin(&site, &provider)
        .await
        .come_back(&site)
        .await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("does not take its tokens"), "{text}");
}

#[tokio::test]
async fn tokens_that_are_not_in_order_are_refused() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider, true).await;
    let changed = |change: Value| -> Issue {
        Arc::new(move |own, nonce| {
            let mut change = change.clone();
            if change.get("nonce").is_none() {
                change["nonce"] = json!(nonce);
            }
            own.id_token(&change)
        })
    };
    let foreign = key();
    let signed = |head: Value| -> Issue {
        let foreign = Arc::clone(&foreign);
        Arc::new(move |own, nonce| {
            let claims = json!({ "iss": own.url, "aud": "astrago", "exp": NOW + 600, "email": "a@b.c",
                                 "groups": [], "nonce": nonce });
            let token = sign(&head, &claims, &foreign);
            match head["alg"].as_str() {
                Some("none") => token.rsplit_once('.').unwrap().0.to_owned() + ".",
                _ => token,
            }
        })
    };
    let head = |algorithm: &str| json!({ "alg": algorithm, "kid": "first" });
    let cases = [
        ("expired", changed(json!({ "exp": NOW - 100 }))),
        ("of the future", changed(json!({ "nbf": NOW + 100 }))),
        ("for another client", changed(json!({ "aud": "other" }))),
        ("for nobody", changed(json!({ "aud": null }))),
        (
            "of another issuer",
            changed(json!({ "iss": "https://evil.example" })),
        ),
        ("of another request", changed(json!({ "nonce": "another" }))),
        ("signed by somebody else", signed(head("ES256"))),
        (
            "with a key that is not there",
            signed(json!({ "alg": "ES256", "kid": "x" })),
        ),
        ("signed with a shared key", signed(head("HS256"))),
        ("not signed", signed(head("none"))),
    ];
    for (what, issue) in cases {
        *provider.issue.lock().unwrap() = issue;
        let answer = Browser::begin(&site, &provider)
            .await
            .come_back(&site)
            .await;
        assert_eq!(answer.status(), StatusCode::UNAUTHORIZED, "{what}");
    }
}

#[tokio::test]
async fn a_key_that_the_provider_changes_is_found() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider, true).await;
    session(&site, &provider).await;
    *provider.keys.lock().unwrap() = vec![("second".to_owned(), key())];
    // The keys are asked for again, though not more often than every few seconds.
    eventually("the new key is known", || async {
        let answer = Browser::begin(&site, &provider)
            .await
            .come_back(&site)
            .await;
        match answer.status() {
            StatusCode::SEE_OTHER => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_with_its_token() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider, true).await;
    let session = session(&site, &provider).await;
    let whoami = async || {
        ask(&site, &session, Method::GET, "/api/whoami", None)
            .await
            .status
    };
    assert_eq!(whoami().await, StatusCode::OK);
    site.plane.clock.advance(601);
    assert_eq!(whoami().await, StatusCode::UNAUTHORIZED);
}
