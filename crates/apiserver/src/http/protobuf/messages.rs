//! The table of messages, read once from its text.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The fields of a message by number.
#[derive(Debug)]
pub(super) struct Message(Vec<Field>);

#[derive(Debug)]
pub(super) struct Field {
    number: u32,
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) is_list: bool,
    pub(super) is_map: bool,
    /// The fields of this message stand among those of the one around it.
    pub(super) is_inline: bool,
    /// Being there means something even when the value is empty or zero.
    pub(super) is_kept: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Type {
    String,
    Bytes,
    Boolean,
    Integer,
    Double,
    Time,
    Quantity,
    IntOrString,
    Strings,
    Json,
    Message(String),
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        self.0.iter().find(|field| field.number == number)
    }
}

pub(super) fn find(name: &str) -> Option<&'static Message> {
    static MESSAGES: LazyLock<HashMap<&str, Message>> = LazyLock::new(|| {
        let lines = include_str!("messages.txt").lines();
        lines
            .filter(|line| !line.starts_with('#'))
            .filter_map(message)
            .collect()
    });
    MESSAGES.get(name)
}

fn message(line: &'static str) -> Option<(&'static str, Message)> {
    let (name, fields) = line.split_once(':')?;
    let fields = fields.split(',').map(str::trim);
    let fields: Option<Vec<_>> = fields.filter(|text| !text.is_empty()).map(field).collect();
    Some((name, Message(fields?)))
}

fn field(text: &str) -> Option<Field> {
    let mut words = text.split(' ');
    let (number, name, kind) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let (kind, is_kept) = kind
        .strip_suffix('?')
        .map_or((kind, false), |kind| (kind, true));
    let (kind, is_list) = kind
        .strip_prefix("[]")
        .map_or((kind, false), |kind| (kind, true));
    let (kind, is_map) = kind
        .strip_prefix("{}")
        .map_or((kind, false), |kind| (kind, true));
    let kind = match kind {
        "s" => Type::String,
        "y" => Type::Bytes,
        "b" => Type::Boolean,
        "i" => Type::Integer,
        "d" => Type::Double,
        "T" => Type::Time,
        "Q" => Type::Quantity,
        "I" => Type::IntOrString,
        "E" => Type::Strings,
        "J" => Type::Json,
        other => Type::Message(other.to_owned()),
    };
    Some(Field {
        number,
        name: name.to_owned(),
        kind,
        is_list,
        is_map,
        is_inline: name == "^",
        is_kept,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_every_name_is_defined() {
        for line in include_str!("messages.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
        {
            let (name, message) = message(line).unwrap_or_else(|| panic!("{line}"));
            for field in message.0 {
                if let Type::Message(inner) = &field.kind {
                    assert!(find(inner).is_some(), "{name}.{} is a {inner}", field.name);
                }
            }
        }
    }
}
