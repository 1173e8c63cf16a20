//! YAML as kubectl reads it.
//!
//! kubectl takes `0755` for an octal number, as YAML 1.1 did; users write file modes so.

mod annotated;
mod lines;

use serde::de::DeserializeOwned;

pub use annotated::{annotated, plain};
pub use lines::Lines;
pub use serde_saphyr::Error;

pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_saphyr::from_str_with_options(text, options())
}

pub fn all_from_str<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, Error> {
    serde_saphyr::from_multiple_with_options(text, options())
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { legacy_octal_numbers: true }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMapVolumeSource;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_file_mode_is_octal_whether_its_type_is_known_or_not() {
        let volume: ConfigMapVolumeSource = from_str("{name: a, defaultMode: 0755}").unwrap();
        assert_eq!(volume.default_mode, Some(0o755));
        let value: Value = from_str("{mode: 0755, text: \"0755\", number: 10}").unwrap();
        assert_eq!(value, json!({"mode": 0o755, "text": "0755", "number": 10}));
    }
}
