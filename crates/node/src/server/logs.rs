//! `/containerLogs`: Kubernetes' log options, as the API server passes them on.

use std::path::PathBuf;
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, Query};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::pods::Found;
use super::transport::websocket;
use super::{Error, Result, State};
use crate::logs::{self, Options, Stream, attempts, stream};
use crate::state::Status;

pub(super) async fn serve(
    axum::extract::State(server): State,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(pairs): Query<Vec<(String, String)>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response> {
    let query = Parameters::parse(pairs, Timestamp::now())?;
    // Pods of a namespace that had the same name are none of this one's business.
    let since = match server.collector.api().filter(|_| query.previous) {
        Some(client) => {
            let namespace = Api::<Namespace>::all(client).get_opt(&namespace).await?;
            let created = namespace.and_then(|it| it.metadata.creation_timestamp);
            created.map(|created| SystemTime::from(created.0))
        }
        None => None,
    };
    let (directory, attempt) = tokio::task::spawn_blocking(move || {
        let found = Found::find(&server, &namespace, &pod)?;
        found.check_container(&container)?;
        let place = match choose_attempt(&found, &container, query.previous) {
            Err(error @ Error::NoPrevious { .. }) => {
                let all = logs::pods_of_name(&server.data_dir, &namespace, &pod);
                let older = predecessor(&all.map_err(Error::Log)?, &found.logs, since);
                older
                    .and_then(|logs| last(&logs.join(&container)))
                    .ok_or(error)?
            }
            chosen => (found.logs.join(&container), chosen?),
        };
        Ok::<_, Error>(place)
    })
    .await
    .map_err(|error| Error::Log(std::io::Error::other(error)))??;
    let text = stream(&directory, attempt, query.options)
        .await
        .map_err(Error::Log)?;
    if let Ok(upgrade) = upgrade {
        return Ok(websocket::logs(upgrade, text));
    }
    let headers = [(header::CONTENT_TYPE, "text/plain")];
    Ok((headers, Body::from_stream(text)).into_response())
}

/// The logs of the pod that had the name of this one before.
fn predecessor(
    all: &[(SystemTime, PathBuf)],
    own: &std::path::Path,
    since: Option<SystemTime>,
) -> Option<PathBuf> {
    let place = all.iter().position(|(_, path)| path == own)?;
    let (made, path) = all.get(place.checked_sub(1)?)?;
    (*made >= since?).then(|| path.clone())
}

/// The last attempt of a container.
fn last(directory: &std::path::Path) -> Option<(PathBuf, u32)> {
    let kept = attempts(directory).ok()?;
    Some((directory.to_owned(), *kept.last()?))
}

/// The attempt whose log is asked for.
fn choose_attempt(found: &Found, container: &str, previous: bool) -> Result<u32> {
    let kept = attempts(&found.logs.join(container)).map_err(Error::Log)?;
    let state = found.container_state(container);
    let waits = matches!(&state, Some(state) if matches!(state.status, Status::Waiting { .. }));
    let current = kept.last().copied();
    if previous {
        // Between two attempts the last one is the previous one already.
        let wanted = match (current, waits) {
            (Some(attempt), true) => Some(attempt),
            (Some(attempt), false) => attempt.checked_sub(1),
            (None, _) => None,
        };
        let pod = found.name.clone();
        return wanted
            .filter(|attempt| kept.contains(attempt))
            .ok_or(Error::NoPrevious {
                pod,
                container: container.to_owned(),
            });
    }
    current.ok_or_else(|| {
        let reason = match state.map(|state| state.status) {
            Some(Status::Waiting { reason, .. }) => reason,
            _ => "ContainerCreating".to_owned(),
        };
        Error::Waiting {
            pod: found.name.clone(),
            container: container.to_owned(),
            reason,
        }
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parameters {
    previous: bool,
    options: Options,
}

impl Parameters {
    fn parse(pairs: Vec<(String, String)>, now: Timestamp) -> Result<Self> {
        let mut parsed = Self::default();
        let mut since_seconds = None;
        let mut since_time = None;
        for (name, value) in pairs {
            match name.as_str() {
                "follow" => parsed.options.follow = boolean(&value),
                "previous" => parsed.previous = boolean(&value),
                "timestamps" => parsed.options.timestamps = boolean(&value),
                "tailLines" => parsed.options.tail = Some(number("tailLines", &value, 0)?),
                "limitBytes" => parsed.options.limit_bytes = Some(number("limitBytes", &value, 1)?),
                "sinceSeconds" => since_seconds = Some(number("sinceSeconds", &value, 1)?),
                "sinceTime" if !value.is_empty() => {
                    let time = value.parse::<Timestamp>();
                    let problem = "must be a time in RFC 3339";
                    since_time = Some(time.map_err(|_| Error::Parameter {
                        parameter: "sinceTime",
                        value,
                        problem,
                    })?);
                }
                "stream" => {
                    parsed.options.stream = match value.as_str() {
                        "" | "All" => None,
                        "Stdout" => Some(Stream::Stdout),
                        "Stderr" => Some(Stream::Stderr),
                        _ => {
                            let problem = "must be one of All, Stdout, Stderr";
                            return Err(Error::Parameter {
                                parameter: "stream",
                                value,
                                problem,
                            });
                        }
                    }
                }
                // The API server passes its own options along, such as `container`.
                _ => {}
            }
        }
        if let (Some(seconds), Some(_)) = (since_seconds, since_time) {
            let problem = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            let value = seconds.to_string();
            return Err(Error::Parameter {
                parameter: "sinceSeconds",
                value,
                problem,
            });
        }
        parsed.options.since = since_time.or_else(|| {
            let seconds = i64::try_from(since_seconds?).unwrap_or(i64::MAX);
            // Longer ago than time can tell is the same as ever.
            now.checked_sub(SignedDuration::from_secs(seconds)).ok()
        });
        Ok(parsed)
    }
}

/// As Kubernetes reads booleans in queries: a name without a value is true.
fn boolean(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

fn number(parameter: &'static str, value: &str, least: i64) -> Result<u64> {
    let problem = match least {
        0 => "must be a number that is not negative",
        _ => "must be a number greater than 0",
    };
    let number = value.parse::<i64>().ok().filter(|number| *number >= least);
    number
        .and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| Error::Parameter {
            parameter,
            value: value.to_owned(),
            problem,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<Parameters> {
        let uri = format!("/?{query}").parse().unwrap();
        let Query(pairs) = Query::try_from_uri(&uri).unwrap();
        Parameters::parse(pairs, "2026-01-02T03:04:05Z".parse().unwrap())
    }

    #[test]
    fn every_option_of_kubernetes_is_understood() {
        let query = "follow=true&previous&timestamps=1&tailLines=0&limitBytes=9&sinceSeconds=5\
                     &stream=Stderr&container=x";
        let want = Parameters {
            previous: true,
            options: Options {
                follow: true,
                tail: Some(0),
                since: Some("2026-01-02T03:04:00Z".parse().unwrap()),
                timestamps: true,
                limit_bytes: Some(9),
                stream: Some(Stream::Stderr),
            },
        };
        assert_eq!(parse(query).unwrap(), want);
        let off =
            "follow=false&previous=0&timestamps=False&sinceTime=2026-01-01T00%3A00%3A00%2B01%3A00";
        let parsed = parse(off).unwrap();
        assert!(!parsed.options.follow && !parsed.previous && !parsed.options.timestamps);
        assert_eq!(
            parsed.options.since.unwrap().to_string(),
            "2025-12-31T23:00:00Z"
        );
    }

    #[test]
    fn the_predecessor_is_the_pod_of_the_name_before_this_one_in_the_same_namespace() {
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let all = [
            (at(1), "a".into()),
            (at(2), "b".into()),
            (at(3), "c".into()),
        ];
        let own = std::path::Path::new("b");
        let cases = [
            ("b", Some(at(1)), Some("a")),
            ("b", Some(at(2)), None),
            ("a", Some(at(0)), None),
            ("b", None, None),
        ];
        assert_eq!(predecessor(&all, own, Some(at(0))), Some("a".into()));
        for (own, since, want) in cases {
            let found = predecessor(&all, std::path::Path::new(own), since);
            assert_eq!(found, want.map(PathBuf::from), "{own} since {since:?}");
        }
    }

    #[rstest::rstest]
    #[case("tailLines=-1", "tailLines")]
    #[case("tailLines=many", "tailLines")]
    #[case("limitBytes=0", "limitBytes")]
    #[case("sinceSeconds=0", "sinceSeconds")]
    #[case("sinceTime=yesterday", "sinceTime")]
    #[case("sinceTime=2026-01-01T00:00:00Z&sinceSeconds=1", "sinceSeconds")]
    #[case("stream=stdin", "stream")]
    fn what_is_wrong_is_named(#[case] query: &str, #[case] want: &str) {
        let error = parse(query).unwrap_err();
        assert!(matches!(error, Error::Parameter { parameter, .. } if parameter == want));
    }
}
