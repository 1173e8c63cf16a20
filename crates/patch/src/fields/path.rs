//! The elements of a path and the values they lead to.

use serde_json::{Map, Value};

use crate::keys::{Keys, List};

/// The one key of a list that has a default in Kubernetes' own types, ports of containers and
/// services: an item without it is the same as one that says so.
const DEFAULT_KEY: (&str, &str) = ("protocol", "TCP");

/// A parsed path element.
pub(crate) enum Element<'a> {
    Field(&'a str),
    /// A list item with these key values.
    Item(Map<String, Value>),
    /// An item of a set.
    Scalar(Value),
    Unknown,
}

impl<'a> Element<'a> {
    pub(crate) fn parse(element: &'a str) -> Self {
        match element.split_once(':') {
            Some(("f", name)) => Self::Field(name),
            Some(("k", keys)) => serde_json::from_str(keys).map_or(Self::Unknown, Self::Item),
            Some(("v", value)) => serde_json::from_str(value).map_or(Self::Unknown, Self::Scalar),
            _ => Self::Unknown,
        }
    }
}

/// The element of a list's item; `None` if the list is atomic, or the item does not have its keys.
pub(crate) fn item_element(item: &Value, keys: &Keys) -> Option<String> {
    match keys.list() {
        List::Atomic => None,
        List::Set => (!item.is_object() && !item.is_array()).then(|| format!("v:{item}")),
        List::Map(names) => {
            let mut names: Vec<&str> = names.iter().map(|name| &**name).collect();
            names.sort_unstable();
            let mut text = String::from("k:{");
            for (index, name) in names.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                let default = || (name == DEFAULT_KEY.0).then(|| Value::from(DEFAULT_KEY.1));
                let value = item.get(name).cloned().or_else(default)?;
                text.push_str(&Value::from(name).to_string());
                text.push(':');
                text.push_str(&value.to_string());
            }
            text.push('}');
            Some(text)
        }
    }
}

/// The element of a list item as we write it; somebody else may have put the keys in another
/// order, or spaces between them.
pub(crate) fn canonical(element: &str, keys: &Keys) -> Option<String> {
    match Element::parse(element) {
        Element::Item(map) => item_element(&Value::Object(map), keys),
        Element::Scalar(value) => Some(format!("v:{value}")),
        _ => None,
    }
}

/// An element as messages show it.
pub(crate) fn shown(element: &str) -> String {
    match Element::parse(element) {
        Element::Field(name) => format!(".{name}"),
        Element::Item(keys) => {
            let keys: Vec<_> = keys
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("[{}]", keys.join(","))
        }
        Element::Scalar(value) => format!("[={value}]"),
        Element::Unknown => format!("[{element}]"),
    }
}
