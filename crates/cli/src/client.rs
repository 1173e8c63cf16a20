//! A client of the REST API, for the commands.

pub(crate) mod events;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use astrago_rest::model::{ErrorBody, WhoAmI};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::args::Connection;
use crate::exit::Failure;
use crate::up::data::{DataDir, Endpoints};

/// A server and a token for it.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
    namespace: Option<String>,
}

impl Client {
    /// Connects to the server that is asked for, or to this machine's; fails when there is none.
    pub(crate) async fn connect(connection: &Connection) -> Result<Self> {
        let found = Self::find(connection).await?;
        Ok(found.ok_or_else(|| {
            Failure::ours("there is no server on this machine")
                .hint("start one with `astrago up`, or name one with --server URL")
        })?)
    }

    /// The same, with `None` when nothing runs on this machine.
    pub(crate) async fn find(connection: &Connection) -> Result<Option<Self>> {
        if let Some(server) = &connection.server {
            let token = connection.token.clone();
            return Ok(Some(Self::new(server, token, connection)?));
        }
        let data = DataDir::locate(connection.data_dir.as_deref())?;
        let Some(endpoints) = Endpoints::read(&data)? else {
            return Ok(None);
        };
        let token = connection.token.clone().or_else(|| read_token(&data));
        let client = Self::new(&endpoints.rest, token, connection)?;
        // The file outlives a server that was killed.
        let alive = client
            .http
            .get(client.url("/healthz"))
            .timeout(Duration::from_secs(3))
            .send()
            .await;
        Ok(alive
            .is_ok_and(|answer| answer.status().is_success())
            .then_some(client))
    }

    pub(crate) fn new(
        server: &str,
        token: Option<String>,
        connection: &Connection,
    ) -> Result<Self> {
        // Installing it twice is refused and harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(10))
            .no_proxy();
        if let Some(path) = &connection.ca_cert {
            let authority = std::fs::read(path)
                .map_err(anyhow::Error::from)
                .and_then(|pem| Ok(reqwest::Certificate::from_pem_bundle(&pem)?))
                .with_context(|| {
                    Failure::theirs(format!("--ca-cert {} cannot be used", path.display()))
                        .hint("it must be a readable PEM file")
                })?;
            builder = builder.tls_certs_merge(authority);
        }
        let http = builder.build().context("failed to set up HTTP")?;
        let base = if server.contains("://") {
            server.to_owned()
        } else {
            format!("http://{server}")
        };
        Ok(Self {
            http,
            base: base.trim_end_matches('/').to_owned(),
            token,
            namespace: connection.namespace.clone(),
        })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The namespace to work in: as given, or the caller's own.
    pub(crate) async fn namespace(&self) -> Result<String> {
        if let Some(namespace) = &self.namespace {
            return Ok(namespace.clone());
        }
        let me: WhoAmI = self.get("/api/whoami", &[]).await?;
        Ok(me.namespace.unwrap_or_else(|| "default".to_owned()))
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T> {
        self.json(self.request(Method::GET, path, query)).await
    }

    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        body: Option<&impl Serialize>,
    ) -> Result<T> {
        let mut request = self.request(Method::POST, path, query);
        if let Some(body) = body {
            request = request.json(body);
        }
        self.json(request).await
    }

    pub(crate) async fn delete<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T> {
        self.json(self.request(Method::DELETE, path, query)).await
    }

    /// Sends an archive.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        archive: Vec<u8>,
    ) -> Result<T> {
        let request = self
            .request(Method::POST, path, query)
            .header("content-type", "application/gzip")
            .body(archive);
        self.json(request).await
    }

    /// An answer whose body is read as it comes.
    pub(crate) async fn stream(
        &self,
        path: &str,
        query: &[(&str, String)],
        after: Option<&str>,
    ) -> Result<reqwest::Response> {
        let mut request = self.request(Method::GET, path, query);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        self.send(request).await
    }

    fn request(&self, method: Method, path: &str, query: &[(&str, String)]) -> RequestBuilder {
        let mut url = self.url(path);
        for (index, (name, value)) in query.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            url.push_str(name);
            url.push('=');
            url.push_str(&escape(value));
        }
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let answer = self.send(request).await?;
        answer
            .json()
            .await
            .context("failed to read the server's answer")
    }

    async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response> {
        let answer = request.send().await.map_err(|error| {
            let failure = Failure::ours(format!("failed to reach the server at {}", self.base))
                .hint("is it running? `astrago up` starts one on this machine");
            anyhow::Error::from(error).context(failure)
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().await.unwrap_or_default();
        Err(refusal(status, &text).into())
    }
}

/// Percent-encodes a part of an address.
pub(crate) fn escape(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// What a refused request means to the person at the terminal.
fn refusal(status: StatusCode, text: &str) -> Failure {
    let ours = status.is_server_error();
    let Ok(body) = serde_json::from_str::<ErrorBody>(text) else {
        let message = format!("the server answered {status}");
        return if ours {
            Failure::ours(message)
        } else {
            Failure::theirs(message)
        };
    };
    let error = body.error;
    let mut failure = if ours {
        Failure::ours(error.message)
    } else {
        Failure::theirs(error.message)
    };
    if error.fields.len() > 1 {
        "the request is invalid".clone_into(&mut failure.message);
        failure.details = error
            .fields
            .iter()
            .map(|field| format!("{}: {}", field.field, field.message))
            .collect();
    }
    failure.hint = error.hint;
    if status == StatusCode::UNAUTHORIZED {
        failure.hint = Some("give a token with --token or ASTRAGO_TOKEN".to_owned());
    }
    failure
}

fn read_token(data: &Path) -> Option<String> {
    let path: PathBuf = data.join("admin.token");
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}
