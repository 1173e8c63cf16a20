//! A client of the REST API, for the commands.

pub(crate) mod events;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use astrago_rest::model::{ErrorBody, WhoAmI};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Upgraded};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::bytes::Bytes;

use crate::args::Connection;
use crate::chosen;
use crate::exit::Failure;
use crate::up::data::{DataDir, Endpoints};

/// A server and a token for it.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
    /// The namespace that was named, or chosen before.
    namespace: Option<String>,
    /// What choices are remembered for: an address, or the folder of this machine's server.
    place: String,
    /// So long the server may say nothing.
    patience: Duration,
}

/// An archive may take so long to send, and nothing is heard meanwhile.
const UPLOAD: Duration = Duration::from_hours(1);

/// A live stream says something every ten seconds; after so long without a word it is broken.
const SILENCE: Duration = Duration::from_secs(30);

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
        let asked = client.http.get(client.url("/healthz")).send();
        match timeout(client.patience, asked).await {
            Ok(Ok(answer)) => Ok(answer.status().is_success().then_some(client)),
            // The file outlives a server that was killed.
            Ok(Err(_)) => Ok(None),
            // It is there, and must not be taken for one that is not.
            Err(_) => Err(client.silent().into()),
        }
    }

    pub(crate) fn new(
        server: &str,
        token: Option<String>,
        connection: &Connection,
    ) -> Result<Self> {
        // Installing it twice is refused and harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let patience = Duration::from_secs(connection.timeout);
        let place = match &connection.server {
            Some(server) => server.clone(),
            None => DataDir::locate(connection.data_dir.as_deref())?
                .display()
                .to_string(),
        };
        let namespace = connection
            .namespace
            .clone()
            .filter(|name| !name.is_empty())
            .or_else(|| chosen::read(&place));
        let base = if server.contains("://") {
            server.to_owned()
        } else {
            format!("http://{server}")
        };
        Ok(Self {
            http: http(connection)?,
            base: base.trim_end_matches('/').to_owned(),
            token,
            namespace,
            place,
            patience,
        })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The namespace that was named, or chosen before; `None` for the caller's own.
    pub(crate) fn named_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The namespace to work in: as named, as chosen before, or the caller's own.
    pub(crate) async fn namespace(&self) -> Result<String> {
        match &self.namespace {
            Some(namespace) => Ok(namespace.clone()),
            None => self.own_namespace().await,
        }
    }

    pub(crate) async fn own_namespace(&self) -> Result<String> {
        let me: WhoAmI = self.get("/api/whoami", &[]).await?;
        Ok(own(&me))
    }

    /// Remembers a namespace to work in with this server, or forgets it.
    pub(crate) fn choose(&self, namespace: Option<&str>) -> Result<()> {
        chosen::write(&self.place, namespace)
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T> {
        let answer = self.json(self.request(Method::GET, path, query)).await;
        answer.map_err(by_flags)
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
        let answer = self.send(request, UPLOAD.max(self.patience)).await?;
        self.read(answer).await
    }

    /// An answer whose body is read as it comes.
    pub(crate) async fn stream(
        &self,
        path: &str,
        query: &[(&str, String)],
        after: Option<&str>,
    ) -> Result<Response> {
        let mut request = self.request(Method::GET, path, query);
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let answer = self.send(request, self.patience).await;
        answer.map_err(by_flags)
    }

    /// A connection that becomes a WebSocket.
    pub(crate) async fn connect_to(
        &self,
        path: &str,
        query: &[(&str, String)],
        protocol: &str,
    ) -> Result<WebSocketStream<Upgraded>> {
        let request = self
            .request(Method::GET, path, query)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", generate_key())
            .header("sec-websocket-protocol", protocol);
        let answer = self.send(request, self.patience).await?;
        let upgraded = answer.upgrade().await.with_context(|| {
            Failure::ours(format!("{} does not let connections through", self.base))
                .hint("is there a proxy in between that does not support WebSockets?")
        })?;
        Ok(WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await)
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
        let answer = self.send(request, self.patience).await?;
        self.read(answer).await
    }

    async fn read<T: DeserializeOwned>(&self, mut answer: Response) -> Result<T> {
        let mut body = Vec::new();
        while let Some(chunk) = self.next(&mut answer, self.patience).await? {
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body).context("failed to understand the server's answer")
    }

    /// The next piece of a live stream; `None` at its end.
    pub(crate) async fn live(&self, answer: &mut Response) -> Result<Option<Bytes>> {
        self.next(answer, SILENCE.max(self.patience)).await
    }

    async fn next(&self, answer: &mut Response, patience: Duration) -> Result<Option<Bytes>> {
        match timeout(patience, answer.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => {
                let failure = Failure::ours(format!("the connection to {} broke", self.base));
                Err(anyhow::Error::from(error).context(failure))
            }
            Err(_) => Err(self.silent().into()),
        }
    }

    fn silent(&self) -> Failure {
        let seconds = self.patience.as_secs();
        let message = format!(
            "the server at {} has not answered for {seconds} s",
            self.base
        );
        Failure::ours(message)
            .hint("it may hang or be overloaded; wait longer with --timeout SECONDS")
    }

    async fn send(&self, request: RequestBuilder, patience: Duration) -> Result<Response> {
        let answer = match timeout(patience, request.send()).await {
            Ok(answer) => answer.map_err(|error| {
                let failure = Failure::ours(format!("failed to reach the server at {}", self.base))
                    .hint("is it running? `astrago up` starts one on this machine");
                anyhow::Error::from(error).context(failure)
            })?,
            Err(_) => return Err(self.silent().into()),
        };
        let status = answer.status();
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answer);
        }
        let text = timeout(patience, answer.text()).await;
        let text = text.map(Result::unwrap_or_default).unwrap_or_default();
        Err(refusal(status, &text).into())
    }
}

fn http(connection: &Connection) -> Result<reqwest::Client> {
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
    builder.build().context("failed to set up HTTP")
}

/// The namespace of somebody's jobs; administrators have none of their own.
pub(crate) fn own(me: &WhoAmI) -> String {
    me.namespace.clone().unwrap_or_else(|| "default".to_owned())
}

/// What stands for itself in a part of an address.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
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
    let fields = error.fields.into_iter();
    failure = failure.fields(fields.map(|it| (it.field, it.message)).collect());
    failure.hint = error.hint;
    if status == StatusCode::UNAUTHORIZED {
        failure.hint = Some("give a token with --token or ASTRAGO_TOKEN".to_owned());
    }
    failure
}

/// A parameter of a list or a log is what a flag says.
fn by_flags(mut error: anyhow::Error) -> anyhow::Error {
    if let Some(failure) = error.downcast_mut::<Failure>() {
        failure.rename(|parameter| match parameter {
            "labels" => Some("--selector".to_owned()),
            "limit" | "namespace" | "state" | "tail" | "worker" => Some(format!("--{parameter}")),
            _ => None,
        });
    }
    error
}

fn read_token(data: &Path) -> Option<String> {
    let path: PathBuf = data.join("admin.token");
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn connection(server: String) -> Connection {
        Connection {
            server: Some(server),
            token: None,
            ca_cert: None,
            data_dir: None,
            namespace: None,
            timeout: 1,
        }
    }

    #[tokio::test]
    async fn a_server_that_hangs_is_given_up_with_a_sentence() {
        // It takes connections and never says a word.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let mut client = Client::connect(&connection(server.clone())).await.unwrap();
        client.patience = Duration::from_millis(50);
        let error = client.namespace().await.unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        let want = format!("the server at {server} has not answered for 0 s");
        assert_eq!((failure.message.clone(), failure.code), (want, 2));
        let streamed = client.stream("/api/trainjobs/stream", &[], None).await;
        assert!(streamed.is_err());
    }
}
