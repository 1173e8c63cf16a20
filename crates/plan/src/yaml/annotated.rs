//! YAML with the origin of every field behind it.

use astrago_patch::keys::Keys;
use serde_json::Value;

use crate::provenance::{Origins, identity, keys_of, segment, step};

/// An object as YAML; a comment on every field's line says where it came from.
pub fn annotated(object: &Value, keys: &Keys, origins: &Origins) -> String {
    let mut writer = Writer {
        text: String::new(),
        origins,
    };
    writer.value(object, keys, 0, &mut String::new());
    writer.text
}

/// An object as YAML, with texts of several lines as blocks.
pub fn plain(object: &Value) -> String {
    annotated(object, &astrago_patch::keys::UNKNOWN, &Origins::default())
}

struct Writer<'a> {
    text: String,
    origins: &'a Origins,
}

impl Writer<'_> {
    /// Writes a value that begins on its own line, indented so far.
    fn value(&mut self, value: &Value, keys: &Keys, indent: usize, path: &mut String) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, value) in fields {
                    self.indent(indent);
                    self.text.push_str(&key(name));
                    self.text.push(':');
                    let child = keys.field(name);
                    step(path, &segment(name), |path| {
                        self.after_key(value, child, indent, path);
                    });
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for item in items {
                    let start = self.text.len();
                    if keys_of(keys).is_empty() {
                        // The list is one field; the comment stands behind its name.
                        self.value(item, keys.items(), indent + 1, &mut "\n".to_owned());
                    } else {
                        let segment = format!("[{}]", identity(item, keys));
                        step(path, &segment, |path| {
                            self.value(item, keys.items(), indent + 1, path);
                        });
                    }
                    self.text
                        .replace_range(start + 2 * indent..start + 2 * indent + 2, "- ");
                }
            }
            scalar => {
                self.indent(indent);
                self.scalar(scalar, indent, path);
            }
        }
    }

    /// Writes a value behind `name:`.
    fn after_key(&mut self, value: &Value, keys: &Keys, indent: usize, path: &mut String) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                self.text.push('\n');
                self.value(value, keys, indent + 1, path);
            }
            Value::Array(items) if !items.is_empty() => {
                if keys_of(keys).is_empty() {
                    self.comment(path);
                }
                self.text.push('\n');
                self.value(value, keys, indent, path);
            }
            scalar => {
                self.text.push(' ');
                self.scalar(scalar, indent + 1, path);
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, path: &str) {
        match value {
            Value::String(text) if is_block(text) => {
                let keep = if text.ends_with('\n') { "|" } else { "|-" };
                self.text.push_str(keep);
                self.comment(path);
                for line in text.lines() {
                    self.text.push('\n');
                    if !line.is_empty() {
                        self.indent(indent);
                        self.text.push_str(line);
                    }
                }
            }
            Value::String(text) => {
                self.text.push_str(&quoted(text));
                self.comment(path);
            }
            other => {
                self.text.push_str(&other.to_string());
                self.comment(path);
            }
        }
        self.text.push('\n');
    }

    fn comment(&mut self, path: &str) {
        if let Some(origin) = self.origins.get(path) {
            self.text.push_str("  # ");
            self.text.push_str(&origin.to_string());
        }
    }

    fn indent(&mut self, indent: usize) {
        self.text.extend(std::iter::repeat_n("  ", indent));
    }
}

fn key(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    if starts_well && name.bytes().all(plain) && !is_word(name) {
        name.to_owned()
    } else {
        json(name)
    }
}

/// A text as it may stand behind a key: plain where nothing else could be read into it.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-:=@$(){}[]'".contains(&byte);
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    if starts_well && text.bytes().all(plain) && !text.ends_with(':') && !is_word(text) {
        text.to_owned()
    } else {
        json(text)
    }
}

/// Words that YAML reads as something else than text.
fn is_word(text: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    words.contains(&text.to_ascii_lowercase().as_str())
}

/// Whether a text reads well as a block: several lines, none of which ends or begins with blanks that
/// a block would lose or misread.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\n', '\t'])
        && !body.contains(['\t', '\r'])
        && body.lines().all(|line| line == line.trim_end())
        && body
            .chars()
            .all(|character| character == '\n' || !character.is_control())
}

/// JSON's strings are YAML's.
fn json(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provenance::Origin;

    #[test]
    fn comments_name_origins_and_the_text_reads_back() {
        let object = json!({
            "metadata": {"labels": {"a.b/c": "true", "d": "1"}, "annotations": {}},
            "spec": {
                "containers": [
                    {"name": "node", "args": ["-c", "a\nb\n"], "env": [{"name": "A", "value": "x: # y"}]},
                    {"name": "b", "command": ["sh", "two\n lines"], "tty": true},
                ],
                "terminationGracePeriodSeconds": 30,
            },
        });
        let keys = Keys::builtin("", "Pod");
        let origins = Origins::default().trace(&Value::Null, &object, keys, &Origin::Job);
        let text = annotated(&object, keys, &origins);
        let back: Value = crate::yaml::from_str(&text).unwrap();
        assert_eq!(back, object, "{text}");
        assert!(
            text.contains("terminationGracePeriodSeconds: 30  # injected by Job\n"),
            "{text}"
        );
        assert!(text.contains("  - args:  # injected by Job\n"), "{text}");
    }
}
