//! Request bodies in Kubernetes' protobuf encoding.
//!
//! kubectl 1.32 and newer send `application/vnd.kubernetes.protobuf` for the objects it builds
//! itself (`create configmap`, `auth can-i`, `run`), Go's typed clients for everything, and neither
//! tries JSON when that is refused.
//! The body is `k8s\0`, an envelope with apiVersion and kind, and the object. The decoder is a
//! small reader of the wire format ([`wire`]) driven by a table of field numbers ([`messages`]);
//! what comes out is the same JSON that the client could have sent. Answers are always JSON.

mod messages;
mod wire;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use messages::{Field, Message, Type};
use wire::{Reader, Wire};

const MAGIC: &[u8] = b"k8s\0";
/// Deeper than any object of Kubernetes' own kinds and than useful schemas, and shallow for the stack.
const MAX_DEPTH: usize = 64;
/// A field of this name stands for the message that it is in.
const ITSELF: &str = "=";

/// Decodes a body into the JSON object that it stands for.
pub fn decode(body: &[u8]) -> Result<Value> {
    let raw = body.strip_prefix(MAGIC).ok_or(Error::NotKubernetes)?;
    let (mut api_version, mut kind, mut object) = (String::new(), String::new(), &[][..]);
    let mut envelope = Reader::new(raw);
    while let Some((number, value)) = envelope.next()? {
        match (number, value) {
            (1, Wire::Bytes(types)) => {
                let mut types = Reader::new(types);
                while let Some((number, value)) = types.next()? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => utf8(text)?.clone_into(&mut api_version),
                        (2, Wire::Bytes(text)) => utf8(text)?.clone_into(&mut kind),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(raw)) => object = raw,
            (3, Wire::Bytes(encoding)) if !encoding.is_empty() => return Err(Error::Compressed),
            _ => {}
        }
    }
    let message = messages::find(&format!("{api_version}/{kind}"))
        .or_else(|| messages::find(&kind))
        .ok_or_else(|| Error::UnknownKind {
            api_version: api_version.clone(),
            kind: kind.clone(),
        })?;
    let mut fields = Map::new();
    fields.insert("apiVersion".to_owned(), json!(api_version));
    fields.insert("kind".to_owned(), json!(kind));
    self::message(message, object, &mut fields, MAX_DEPTH)?;
    Ok(Value::Object(fields))
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the body does not begin as Kubernetes' protobuf does")]
    NotKubernetes,
    #[error("the body is compressed, which is not supported")]
    Compressed,
    #[error("{kind} of {api_version:?} cannot be read from protobuf; send JSON")]
    UnknownKind { api_version: String, kind: String },
    #[error("the protobuf body is cut short or garbled")]
    Garbled,
    #[error("the protobuf body holds text that is not UTF-8")]
    NotText,
    #[error("the protobuf body is nested too deeply")]
    TooDeep,
}

pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Reads the fields of a message into `into`.
fn message(
    message: &Message,
    raw: &[u8],
    into: &mut Map<String, Value>,
    depth: usize,
) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.next()? {
        // Fields of a newer client are nothing to us.
        let Some(field) = message.field(number) else {
            continue;
        };
        if field.is_inline {
            if let (Type::Message(name), Wire::Bytes(raw)) = (&field.kind, wire)
                && let Some(inner) = messages::find(name)
            {
                self::message(inner, raw, into, depth)?;
            }
        } else if field.is_list {
            let value = self::value(&field.kind, wire, depth)?;
            let list = into.entry(&field.name).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(value);
            }
        } else if field.is_map {
            let (key, value) = entry(field, wire, depth)?;
            let map = into.entry(&field.name).or_insert_with(|| json!({}));
            if let Value::Object(map) = map {
                map.insert(key, value);
            }
        } else {
            let value = self::value(&field.kind, wire, depth)?;
            if field.is_kept || !is_zero(&value) {
                into.insert(field.name.clone(), value);
            }
        }
    }
    Ok(())
}

fn entry(field: &Field, wire: Wire<'_>, depth: usize) -> Result<(String, Value)> {
    let Wire::Bytes(raw) = wire else {
        return Err(Error::Garbled);
    };
    let (mut key, mut value) = (String::new(), empty(&field.kind));
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Bytes(text)) => utf8(text)?.clone_into(&mut key),
            (2, wire) => value = self::value(&field.kind, wire, depth)?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn empty(kind: &Type) -> Value {
    match kind {
        Type::Message(_) => json!({}),
        Type::Strings => json!([]),
        _ => json!(""),
    }
}

fn value(kind: &Type, wire: Wire<'_>, depth: usize) -> Result<Value> {
    Ok(match (kind, wire) {
        (Type::String, Wire::Bytes(raw)) => json!(utf8(raw)?),
        (Type::Bytes, Wire::Bytes(raw)) => {
            json!(base64::engine::general_purpose::STANDARD.encode(raw))
        }
        (Type::Boolean, Wire::Number(number)) => json!(number != 0),
        (Type::Integer, Wire::Number(number)) => json!(number.cast_signed()),
        (Type::Double, Wire::Number(bits)) => double(f64::from_bits(bits)),
        (Type::Time, Wire::Bytes(raw)) => time(raw)?,
        (Type::Quantity, Wire::Bytes(raw)) => text_of(raw, 1)?,
        (Type::IntOrString, Wire::Bytes(raw)) => int_or_string(raw)?,
        (Type::Strings, Wire::Bytes(raw)) => {
            let mut list = Vec::new();
            let mut reader = Reader::new(raw);
            while let Some((_, wire)) = reader.next()? {
                let Wire::Bytes(text) = wire else {
                    return Err(Error::Garbled);
                };
                list.push(json!(utf8(text)?));
            }
            Value::Array(list)
        }
        (Type::Json, Wire::Bytes(raw)) => {
            let text = text_of(raw, 1)?;
            serde_json::from_str(text.as_str().unwrap_or_default()).map_err(|_| Error::Garbled)?
        }
        (Type::Message(name), Wire::Bytes(raw)) => {
            let mut fields = Map::new();
            if let Some(inner) = messages::find(name) {
                message(inner, raw, &mut fields, depth)?;
            }
            let itself = fields.remove(ITSELF);
            itself.unwrap_or(Value::Object(fields))
        }
        _ => return Err(Error::Garbled),
    })
}

/// As Go writes it: without a point where none is needed.
fn double(number: f64) -> Value {
    let is_whole = number.fract() == 0.0 && number.abs() < 1e15;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "whole numbers of that size fit"
    )]
    if is_whole {
        json!(number as i64)
    } else {
        json!(number)
    }
}

/// The text in a message that has nothing else.
fn text_of(raw: &[u8], wanted: u32) -> Result<Value> {
    let mut text = "";
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.next()? {
        if let (true, Wire::Bytes(raw)) = (number == wanted, wire) {
            text = utf8(raw)?;
        }
    }
    Ok(json!(text))
}

fn time(raw: &[u8]) -> Result<Value> {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    let mut reader = Reader::new(raw);
    while let Some((number, wire)) = reader.next()? {
        match (number, wire) {
            (1, Wire::Number(number)) => seconds = number.cast_signed(),
            (2, Wire::Number(number)) => nanos = number.cast_signed(),
            _ => {}
        }
    }
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).map_err(|_| Error::Garbled)?;
    let time = jiff::Timestamp::new(seconds, nanos).map_err(|_| Error::Garbled)?;
    Ok(if nanos == 0 {
        json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    } else {
        json!(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
    })
}

fn int_or_string(raw: &[u8]) -> Result<Value> {
    let (mut is_text, mut number, mut text) = (false, 0_i64, "");
    let mut reader = Reader::new(raw);
    while let Some((field, wire)) = reader.next()? {
        match (field, wire) {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value.cast_signed(),
            (3, Wire::Bytes(value)) => text = utf8(value)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

/// Values that Go leaves out of JSON, because they are what the field has anyway.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn utf8(raw: &[u8]) -> Result<&str> {
    std::str::from_utf8(raw).map_err(|_| Error::NotText)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        let mut length = content.len();
        while length > 127 {
            field.push(u8::try_from(length & 127).unwrap() | 128);
            length >>= 7;
        }
        field.push(u8::try_from(length).unwrap());
        field.extend_from_slice(content);
        field
    }

    /// The same for numbers of fields from 16 to 127.
    fn long(number: u8, content: &[u8]) -> Vec<u8> {
        let tail = bytes(0, content).split_off(1);
        [&[number << 3 | 2 | 128, number >> 4][..], &tail].concat()
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let types = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        let envelope = [
            bytes(1, &types),
            bytes(2, object),
            bytes(3, b""),
            bytes(4, b""),
        ]
        .concat();
        [MAGIC, &envelope].concat()
    }

    #[test]
    fn reads_a_config_map() {
        let meta = [bytes(1, b"cm"), bytes(2, b""), bytes(3, b"default")].concat();
        let data = [bytes(1, b"key"), bytes(2, b"value")].concat();
        let empty = bytes(1, b"empty");
        let object = [bytes(1, &meta), bytes(2, &data), bytes(2, &empty)].concat();
        let want = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cm", "namespace": "default"},
            "data": {"key": "value", "empty": ""}});
        assert_eq!(decode(&body("v1", "ConfigMap", &object)), Ok(want));
    }

    #[test]
    fn reads_an_access_review() {
        let attributes = [bytes(1, b"default"), bytes(2, b"get"), bytes(5, b"pods")].concat();
        let object = [bytes(1, b""), bytes(2, &bytes(1, &attributes))].concat();
        let got = decode(&body(
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            &object,
        ));
        let want = json!({"namespace": "default", "verb": "get", "resource": "pods"});
        assert_eq!(got.unwrap()["spec"]["resourceAttributes"], want);
    }

    #[test]
    fn reads_a_pod_with_what_matters_and_without_what_does_not() {
        let image = [bytes(1, b"c"), bytes(2, b"busybox"), bytes(3, b"sh")].concat();
        let volume = [bytes(1, b"v"), bytes(2, &bytes(2, b""))].concat();
        let spec = [
            bytes(1, &volume),
            bytes(2, &image),
            bytes(3, b"Never"),
            number(4, 0),
            number(11, 0),
        ];
        let object = [bytes(1, &bytes(1, b"p")), bytes(2, &spec.concat())].concat();
        let want = json!({"containers": [{"name": "c", "image": "busybox", "command": ["sh"]}],
            "volumes": [{"name": "v", "emptyDir": {}}], "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0});
        assert_eq!(decode(&body("v1", "Pod", &object)).unwrap()["spec"], want);
    }

    #[test]
    fn reads_secrets_times_and_ports() {
        let entry = [bytes(1, b"k"), bytes(2, b"\xff\x00")].concat();
        let secret = decode(&body("v1", "Secret", &bytes(2, &entry))).unwrap();
        assert_eq!(secret["data"]["k"], "/wA=");
        let meta = bytes(1, &bytes(8, &number(1, 60)));
        let object = decode(&body("v1", "Namespace", &meta)).unwrap();
        assert_eq!(
            object["metadata"]["creationTimestamp"],
            "1970-01-01T00:01:00Z"
        );
        let port = [
            number(3, 80),
            bytes(4, &[number(1, 0), number(2, 90)].concat()),
        ]
        .concat();
        let service = decode(&body("v1", "Service", &bytes(2, &bytes(1, &port)))).unwrap();
        assert_eq!(
            service["spec"]["ports"],
            json!([{"port": 80, "targetPort": 90}])
        );
    }

    #[test]
    fn reads_a_definition_with_its_schema() {
        let text = bytes(5, b"string");
        let one_half = [&[11 << 3 | 1][..], &0.5_f64.to_le_bytes()].concat();
        let three = [&[9 << 3 | 1][..], &3.0_f64.to_le_bytes()].concat();
        let property =
            |name: &[u8], schema: &[u8]| long(29, &[bytes(1, name), bytes(2, schema)].concat());
        let schema = [
            property(b"number", &[three, one_half].concat()),
            property(b"list", &long(24, &bytes(1, &text))),
            property(b"any", &long(30, &number(1, 1))),
            property(b"closed", &long(30, &number(1, 0))),
            property(b"map", &long(30, &[number(1, 1), bytes(2, &text)].concat())),
            property(
                b"keep",
                &[&[0xb0, 0x02, 1][..], &bytes(8, &bytes(1, b"[1]"))].concat(),
            ),
        ];
        let version = [
            bytes(1, b"v1"),
            number(2, 0),
            number(3, 1),
            bytes(4, &bytes(1, &schema.concat())),
            bytes(5, &bytes(1, b"")),
        ];
        let spec = bytes(2, &bytes(7, &version.concat()));
        let got = decode(&body(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &spec,
        ));
        let want = json!([{"name": "v1", "served": false, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"properties": {
            "number": {"maximum": 3, "minimum": 0.5},
            "list": {"items": {"type": "string"}},
            "any": {"additionalProperties": true},
            "closed": {"additionalProperties": false},
            "map": {"additionalProperties": {"type": "string"}},
            "keep": {"x-kubernetes-preserve-unknown-fields": true, "default": [1]},
        }}}}]);
        assert_eq!(got.unwrap()["spec"]["versions"], want);
    }

    #[test]
    fn a_kind_of_two_groups_is_read_as_its_group_has_it() {
        let object = bytes(10, b"note");
        let event = decode(&body("events.k8s.io/v1", "Event", &object)).unwrap();
        assert_eq!(event["note"], "note");
        let event = decode(&body("v1", "Event", &bytes(4, b"message"))).unwrap();
        assert_eq!(event["message"], "message");
    }

    #[test]
    fn statuses_are_read() {
        let object = decode(&body("v1", "Pod", &bytes(3, &bytes(1, b"Running")))).unwrap();
        assert_eq!(object["status"], json!({"phase": "Running"}));
    }

    /// Go's clients would not fall back to JSON.
    #[test]
    fn every_kind_that_is_served_can_be_read() {
        for info in crate::kinds::builtin::kinds() {
            let read = decode(&body(&info.api_version(), info.kind, b""));
            assert!(read.is_ok(), "{}", info.kind);
        }
    }

    #[rstest]
    #[case::json(b"{}".to_vec(), Error::NotKubernetes)]
    #[case::kind(body("v1", "Gadget", b""), Error::UnknownKind {
        api_version: "v1".to_owned(), kind: "Gadget".to_owned() })]
    #[case::short(body("v1", "ConfigMap", &[0x0a, 0x7f]), Error::Garbled)]
    #[case::text(body("v1", "ConfigMap", &bytes(1, &bytes(1, b"\xff"))), Error::NotText)]
    #[case::type_mismatch(body("v1", "ConfigMap", &number(1, 1)), Error::Garbled)]
    fn refuses(#[case] body: Vec<u8>, #[case] want: Error) {
        assert_eq!(decode(&body), Err(want));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_read(
            raw in prop::collection::vec(any::<u8>(), 0..200),
            kind in proptest::sample::select(vec!["Pod", "ConfigMap", "Job", "Role", "DeleteOptions"]),
        ) {
            let _ = decode(&raw);
            let _ = decode(&body("v1", kind, &raw));
        }
    }
}
