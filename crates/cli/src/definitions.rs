//! The definitions of our kinds, ready to be sent. `cargo xtask gen` derives them from the types of `astrago-api`:
//! at every start it would take longer than all the rest.

use astrago_api::legacy::LEGACY_GROUP;

/// A line each: the name, a space, the definition as JSON.
const PACKED: &[u8] = include_bytes!("definitions.zst");

#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition<'a> {
    pub(crate) name: &'a str,
    pub(crate) json: &'a str,
}

impl Definition<'_> {
    /// Whether it is a job of the Training Operator v1.
    pub(crate) fn is_legacy(&self) -> bool {
        let group = self.name.split_once('.').map(|(_, group)| group);
        group == Some(LEGACY_GROUP)
    }
}

/// What [`each`] reads.
pub(crate) fn unpack() -> String {
    let text = zstd::decode_all(PACKED).expect("the definitions were packed by `cargo xtask gen`");
    String::from_utf8(text).expect("JSON is UTF-8")
}

/// All definitions, in the order in which they are installed.
pub(crate) fn each(text: &str) -> impl Iterator<Item = Definition<'_>> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, json)| Definition { name, json })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn they_are_those_of_the_types() {
        let types = [astrago_api::crds(), astrago_api::legacy::legacy_crds()].concat();
        let text = unpack();
        let mut packed = each(&text);
        for want in types {
            let found = packed.next().expect("as many as there are types");
            assert_eq!(Some(found.name), want.metadata.name.as_deref());
            assert_eq!(found.is_legacy(), want.spec.group == LEGACY_GROUP);
            let found: Value = serde_json::from_str(found.json).unwrap();
            assert!(
                found == serde_json::to_value(&want).unwrap(),
                "the definition of {} is out of date, run `cargo xtask gen`",
                want.spec.names.kind
            );
        }
        assert!(packed.next().is_none());
    }
}
