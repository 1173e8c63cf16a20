//! Signing in with a provider that the test itself is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use astrago_rest::OidcOptions;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::{Site, form_a};

/// A small provider: one user, keys that can be changed, codes that work once.
/// By their ids.
type Keys = Vec<(String, Arc<EcdsaKeyPair>)>;

#[derive(Clone)]
struct Provider {
    url: String,
    keys: Arc<Mutex<Keys>>,
    /// By code: the challenge and the nonce that it was asked for with.
    codes: Arc<Mutex<HashMap<String, (String, String)>>>,
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
        Ok(Json(
            json!({ "id_token": own.id_token(&json!({ "nonce": nonce })), "token_type": "Bearer" }),
        ))
    }

    /// A token with some claims changed, signed with the newest key.
    fn id_token(&self, change: &Value) -> String {
        let mut claims = json!({
            "iss": self.url, "aud": "astrago", "sub": "1", "exp": self.now + 600, "iat": self.now,
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

async fn site_with(provider: &Provider) -> Site {
    let url = provider.url.clone();
    Site::start_with(move |options| {
        let mut oidc = OidcOptions::new(&url, "astrago", "http://localhost:8000");
        oidc.client_secret = Some("shared".to_owned());
        oidc.admin_group = Some("platform".to_owned());
        options.oidc = Some(oidc);
    })
    .await
}

/// The time of the in-process plane.
const NOW: i64 = 1_800_000_000;

#[tokio::test]
async fn an_id_token_is_a_bearer_token_with_the_rights_of_its_user() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider).await;
    let token = provider.id_token(&json!({}));
    let whoami = site.get("/api/whoami", &token).await.ok();
    assert_eq!(
        (&whoami["user"], &whoami["admin"]),
        (&json!("minsu.kim@lab.kr"), &json!(false))
    );
    assert_eq!(whoami["groups"], json!(["team-a", "system:authenticated"]));
    assert_eq!(whoami["namespace"], "user-minsu-kim-lab-kr");
    let form = form_a("minsu.kim@lab.kr", "user-minsu-kim-lab-kr");
    let made = site.post("/api/trainjob/create", &token, &form).await.ok();
    let name = made["trainjob_name"].as_str().unwrap();
    let status = format!("/api/trainjob/{name}/status");
    site.until(&status, &token, |_| true).await;
    // Another person whose name has the same label has no rights there.
    let twin = provider.id_token(&json!({ "email": "minsu-kim@lab.kr" }));
    let path = format!("{status}?namespace=user-minsu-kim-lab-kr");
    assert_eq!(site.get(&path, &twin).await.status, StatusCode::FORBIDDEN);
    let admin = provider.id_token(&json!({ "groups": ["platform"] }));
    assert_eq!(site.get("/api/users", &admin).await.status, StatusCode::OK);
}

#[tokio::test]
async fn tokens_that_are_not_in_order_are_refused() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider).await;
    let foreign = key();
    let good = json!({ "iss": provider.url, "aud": "astrago", "exp": NOW + 600, "email": "a@b.c" });
    let head = |alg: &str| json!({ "alg": alg, "kid": "first" });
    let unsigned = sign(&head("none"), &good, &foreign);
    let unsigned = unsigned.rsplit_once('.').unwrap().0.to_owned() + ".";
    let cases = [
        ("expired", provider.id_token(&json!({ "exp": NOW - 100 }))),
        (
            "of the future",
            provider.id_token(&json!({ "nbf": NOW + 100 })),
        ),
        (
            "for another client",
            provider.id_token(&json!({ "aud": "other" })),
        ),
        ("for nobody", provider.id_token(&json!({ "aud": null }))),
        (
            "of another issuer",
            provider.id_token(&json!({ "iss": "https://evil.example" })),
        ),
        (
            "of the system",
            provider.id_token(&json!({ "email": "system:admin" })),
        ),
        (
            "not verified",
            provider.id_token(&json!({ "email_verified": false })),
        ),
        (
            "signed by somebody else",
            sign(&head("ES256"), &good, &foreign),
        ),
        (
            "with a key that is not there",
            sign(&json!({ "alg": "ES256", "kid": "x" }), &good, &foreign),
        ),
        (
            "signed with a shared key",
            sign(&head("HS256"), &good, &foreign),
        ),
        ("not signed", unsigned),
    ];
    for (what, token) in cases {
        let answer = site.get("/api/whoami", &token).await;
        assert_eq!(
            answer.status,
            StatusCode::UNAUTHORIZED,
            "{what}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn a_key_that_the_provider_changes_is_found() {
    let provider = Provider::start(NOW).await;
    provider.keys.lock().unwrap().clear();
    provider
        .keys
        .lock()
        .unwrap()
        .push(("other".to_owned(), key()));
    let site = site_with(&provider).await;
    assert_eq!(
        site.get("/api/whoami", &provider.id_token(&json!({})))
            .await
            .status,
        StatusCode::OK
    );
    *provider.keys.lock().unwrap() = vec![("second".to_owned(), key())];
    // The keys are asked for again, though not more often than every few seconds.
    let token = provider.id_token(&json!({}));
    site.until("/api/whoami", &token, |_| true).await;
}

#[tokio::test]
async fn a_browser_signs_in_with_a_code_and_out_again() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider).await;
    assert_eq!(site.get("/api/session", "").await.ok()["oidc"], true);
    let sent = site
        .send(
            Method::GET,
            "/api/oidc/login?return_to=/jobs",
            "",
            None,
            &[],
        )
        .await;
    assert_eq!(sent.status(), StatusCode::SEE_OTHER);
    let cookie = sent.headers()["set-cookie"]
        .to_str()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let url = reqwest::Url::parse(sent.headers()["location"].to_str().unwrap()).unwrap();
    let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
    assert!(
        url.as_str()
            .starts_with(&format!("{}/authorize?", provider.url))
    );
    assert_eq!(
        (
            query["response_type"].as_str(),
            query["code_challenge_method"].as_str()
        ),
        ("code", "S256")
    );
    assert_eq!(
        query["redirect_uri"],
        "http://localhost:8000/api/oidc/callback"
    );
    let asked = (query["code_challenge"].clone(), query["nonce"].clone());
    let give = |code: &str| {
        provider
            .codes
            .lock()
            .unwrap()
            .insert(code.to_owned(), asked.clone());
    };
    give("the-code");
    let back = format!("/api/oidc/callback?code=the-code&state={}", query["state"]);
    // Without the cookie of the browser that began it, somebody else's code does nothing.
    assert_eq!(site.get(&back, "").await.status, StatusCode::UNAUTHORIZED);
    let come = async |path: &str| {
        site.send(Method::GET, path, "", None, &[("cookie", &cookie)])
            .await
    };
    let signed_in = come(&back).await;
    assert_eq!(signed_in.status(), StatusCode::SEE_OTHER);
    assert_eq!(signed_in.headers()["location"], "/jobs");
    let cookies: Vec<&str> = signed_in
        .headers()
        .get_all("set-cookie")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    let session = cookies
        .iter()
        .find(|cookie| cookie.starts_with("astrago_token=session-"))
        .unwrap();
    assert!(
        session.contains("HttpOnly") && session.contains("SameSite=Strict"),
        "{session}"
    );
    let session = session.split(';').next().unwrap();
    give("the-code");
    assert_eq!(
        come(&back).await.status(),
        StatusCode::UNAUTHORIZED,
        "a state works once"
    );

    let ask = async |method: Method, path: &str| {
        let headers = [("cookie", session), ("origin", "http://localhost")];
        site.request(method, path, "", None, &headers).await
    };
    assert_eq!(
        ask(Method::GET, "/api/whoami").await.ok()["user"],
        "minsu.kim@lab.kr"
    );
    ask(Method::DELETE, "/api/session").await.ok();
    assert_eq!(
        ask(Method::GET, "/api/whoami").await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn a_session_ends_with_its_time() {
    let provider = Provider::start(NOW).await;
    let site = site_with(&provider).await;
    let sent = site
        .send(Method::GET, "/api/oidc/login", "", None, &[])
        .await;
    let cookie = sent.headers()["set-cookie"]
        .to_str()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let url = reqwest::Url::parse(sent.headers()["location"].to_str().unwrap()).unwrap();
    let query: HashMap<String, String> = url.query_pairs().into_owned().collect();
    let asked = (query["code_challenge"].clone(), query["nonce"].clone());
    provider.codes.lock().unwrap().insert("c".to_owned(), asked);
    let back = format!("/api/oidc/callback?code=c&state={}", query["state"]);
    let signed_in = site
        .send(Method::GET, &back, "", None, &[("cookie", &cookie)])
        .await;
    let session = signed_in.headers()["set-cookie"]
        .to_str()
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let whoami = async || {
        site.request(
            Method::GET,
            "/api/whoami",
            "",
            None,
            &[("cookie", &session)],
        )
        .await
        .status
    };
    assert_eq!(whoami().await, StatusCode::OK);
    site.plane.clock.advance(12 * 3600 + 1);
    assert_eq!(whoami().await, StatusCode::UNAUTHORIZED);
}
