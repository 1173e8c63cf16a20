//! Registry credentials from `imagePullSecrets`.
//!
//! Both of Kubernetes' secret types are read: `kubernetes.io/dockerconfigjson` and the older
//! `kubernetes.io/dockercfg`. Of several entries that fit an image, the one with the longest path
//! is used, as the kubelet does.

use std::collections::BTreeMap;

use base64::Engine as _;
use oci_client::Reference;
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// What a pod may show to registries. Debug output does not contain the secrets.
#[derive(Clone, Default)]
pub struct Credentials(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    /// Host with an optional port; a part of it may be `*`.
    host: String,
    /// Repository prefix, without slashes at its ends.
    path: String,
    auth: RegistryAuth,
}

impl Credentials {
    /// Adds the content of a secret: the value of `.dockerconfigjson` or `.dockercfg`.
    pub fn add(&mut self, content: &[u8]) -> Result<()> {
        let file: File = serde_json::from_slice(content).map_err(|_| Error::NotJson)?;
        let logins = match file {
            File::Config { auths } => auths,
            File::Legacy(logins) => logins,
        };
        for (server, login) in logins {
            let (host, path) = split_server(&server);
            if let Some(auth) = login.auth(&server)? {
                self.0.push(Entry { host, path, auth });
            }
        }
        self.0
            .sort_by_key(|entry| std::cmp::Reverse(entry.path.len()));
        Ok(())
    }

    /// What to show to the registry of this image.
    pub(super) fn find(&self, reference: &Reference) -> RegistryAuth {
        let hosts = [reference.registry(), reference.resolve_registry()];
        let fits = |entry: &&Entry| {
            hosts.iter().any(|host| host_fits(&entry.host, host))
                && path_fits(&entry.path, reference.repository())
        };
        self.0
            .iter()
            .find(fits)
            .map_or(RegistryAuth::Anonymous, |entry| entry.auth.clone())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_list()
            .entries(self.0.iter().map(|entry| &entry.host))
            .finish()
    }
}

/// Names a credential without telling it; `None` for no credential.
pub(super) fn fingerprint(reference: &Reference, auth: &RegistryAuth) -> Option<String> {
    let parts = match auth {
        RegistryAuth::Anonymous => return None,
        RegistryAuth::Basic(user, password) => ["basic", user, password],
        RegistryAuth::Bearer(token) => ["bearer", "", token],
    };
    let mut hash = Sha256::new();
    for part in [reference.registry(), parts[0], parts[1], parts[2]] {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    Some(super::digest::hex(&hash.finalize()))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Config { auths: BTreeMap<String, Login> },
    Legacy(BTreeMap<String, Login>),
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Login {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
    registrytoken: String,
}

impl Login {
    fn auth(self, server: &str) -> Result<Option<RegistryAuth>> {
        if !self.registrytoken.is_empty() {
            return Ok(Some(RegistryAuth::Bearer(self.registrytoken)));
        }
        if !self.identitytoken.is_empty() {
            // The token stands for a password, with this fixed name.
            return Ok(Some(RegistryAuth::Basic(
                "<token>".into(),
                self.identitytoken,
            )));
        }
        if !self.username.is_empty() {
            return Ok(Some(RegistryAuth::Basic(self.username, self.password)));
        }
        if self.auth.is_empty() {
            return Ok(None);
        }
        let bad = || Error::BadLogin {
            server: server.to_owned(),
        };
        let decoded = base64::engine::general_purpose::STANDARD
            .decode(self.auth.trim())
            .map_err(|_| bad())?;
        let text = String::from_utf8(decoded).map_err(|_| bad())?;
        let (user, password) = text.split_once(':').ok_or_else(bad)?;
        let password = password.trim_end_matches('\0');
        Ok(Some(RegistryAuth::Basic(
            user.to_owned(),
            password.to_owned(),
        )))
    }
}

/// `https://host/v1/` and `host/team/project` occur.
fn split_server(server: &str) -> (String, String) {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let path = path.trim_matches('/');
    // These name the protocol's version, not a repository.
    let path = if matches!(path, "v1" | "v2") {
        ""
    } else {
        path
    };
    (host.to_lowercase(), path.to_owned())
}

/// A `*` stands for one part of a host's name.
fn host_fits(pattern: &str, host: &str) -> bool {
    let (pattern, host): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.split('.').collect());
    pattern.len() == host.len()
        && pattern
            .iter()
            .zip(&host)
            .all(|(pattern, part)| match pattern.split_once('*') {
                None => pattern.eq_ignore_ascii_case(part),
                Some((start, end)) => {
                    part.len() >= start.len() + end.len()
                        && part.starts_with(start)
                        && part.ends_with(end)
                }
            })
}

fn path_fits(prefix: &str, repository: &str) -> bool {
    repository
        .strip_prefix(prefix)
        .is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
}

pub(super) type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors say where the fault is and never what the secret is.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the pull secret is not a Docker configuration in JSON")]
    NotJson,
    #[error("the pull secret's login for {server} is neither a user with a password nor a token")]
    BadLogin { server: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(text: &str) -> Credentials {
        let mut credentials = Credentials::default();
        credentials.add(text.as_bytes()).unwrap();
        credentials
    }

    #[rstest::rstest]
    #[case::host_and_port("localhost:5000/a/b:1", "first")]
    #[case::longest_path("localhost:5000/team/x", "second")]
    #[case::not_a_prefix_of_a_name("localhost:5000/teams/x", "first")]
    #[case::wildcard("eu.registry.example/x", "third")]
    #[case::wildcard_is_one_part("a.eu.registry.example/x", "")]
    #[case::other_port("localhost:5001/a", "")]
    fn the_most_specific_entry_is_used(#[case] image: &str, #[case] want: &str) {
        let credentials = credentials(
            r#"{"auths":{
                "http://localhost:5000/v2/":{"username":"first","password":"p"},
                "localhost:5000/team":{"auth":"c2Vjb25kOnA="},
                "*.registry.example":{"username":"third","password":"p"}}}"#,
        );
        let found = credentials.find(&image.parse().unwrap());
        let user = match found {
            RegistryAuth::Basic(user, _) => user,
            _ => String::new(),
        };
        assert_eq!(user, want);
    }

    #[test]
    fn the_old_format_and_tokens_are_read() {
        let legacy = credentials(r#"{"localhost:5000":{"auth":"dXNlcjpwYTpzcw=="}}"#);
        let found = legacy.find(&"localhost:5000/x".parse().unwrap());
        assert!(matches!(found, RegistryAuth::Basic(_, password) if password == "pa:ss"));
        let token = credentials(r#"{"auths":{"localhost:5000":{"registrytoken":"t"}}}"#);
        let found = token.find(&"localhost:5000/x".parse().unwrap());
        assert!(matches!(found, RegistryAuth::Bearer(_)));
    }

    #[test]
    fn a_broken_secret_is_named_but_not_shown() {
        let mut credentials = Credentials::default();
        let error = credentials
            .add(br#"{"auths":{"host":{"auth":"aHVudGVyMg=="}}}"#)
            .unwrap_err();
        assert!(error.to_string().contains("host") && !error.to_string().contains("hunter2"));
        assert!(matches!(credentials.add(b"hunter2"), Err(Error::NotJson)));
        assert!(!format!("{credentials:?}").contains("hunter2"));
    }
}
