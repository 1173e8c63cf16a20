//! Which form of an answer the `Accept` header asks for.

use crate::status::{ApiError, Result};

/// The form of objects and lists in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Output {
    #[default]
    Json,
    Table(&'static str),
    /// `PartialObjectMetadata`, or a list of them.
    Metadata,
}

/// Takes the first clause that we can serve, as Kubernetes does.
pub(crate) fn output(accept: &str) -> Result<Output> {
    if accept.trim().is_empty() {
        return Ok(Output::Json);
    }
    let mut protobuf = false;
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |name| {
            parameters
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        protobuf |= media == "application/vnd.kubernetes.protobuf";
        if !matches!(
            media,
            "application/json" | "application/*" | "*/*" | "application/yaml" | "text/plain"
        ) {
            continue;
        }
        match (parameter("as"), parameter("v")) {
            (None, _) => return Ok(Output::Json),
            (Some("Table"), Some("v1")) => return Ok(Output::Table("meta.k8s.io/v1")),
            (Some("Table"), Some("v1beta1")) => return Ok(Output::Table("meta.k8s.io/v1beta1")),
            (Some("PartialObjectMetadata" | "PartialObjectMetadataList"), _) => {
                return Ok(Output::Metadata);
            }
            _ => {}
        }
    }
    // Clients that ask for protobuf alone still read JSON by its content type.
    if protobuf {
        Ok(Output::Json)
    } else {
        Err(ApiError::NotAcceptable("application/json"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("", Output::Json)]
    #[case("*/*", Output::Json)]
    #[case(
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        Output::Table("meta.k8s.io/v1")
    )]
    #[case("application/vnd.kubernetes.protobuf,application/json", Output::Json)]
    #[case(
        "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
        Output::Json
    )]
    #[case(
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        Output::Metadata
    )]
    fn takes_the_first_that_fits(#[case] accept: &str, #[case] want: Output) {
        assert_eq!(output(accept).unwrap(), want);
    }

    #[test]
    fn refuses_what_nobody_serves() {
        assert!(output("image/png").is_err());
    }
}
