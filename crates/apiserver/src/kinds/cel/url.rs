//! `url('https://example.org/a?b=c')` and its functions.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the interpreter hands arguments over by value"
)]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cel::common::functions::Function;
use cel::common::types::{STRING_TYPE, Type};
use cel::objects::{Key, Map};
use cel::{DeclarationError, Env, Value};

use super::opaque::{Answer, Args, Custom, answer, custom, failed, own, string};

static TYPE: Type = Type::new_unspecified_type("kubernetes.URL");

#[derive(Clone, Debug, Default, PartialEq)]
struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl Custom for Url {
    fn cel_type() -> &'static Type {
        &TYPE
    }
}

pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("url", "string_to_url", vec![STRING_TYPE], to_url)?;
    env.add_overload("isURL", "is_url", vec![STRING_TYPE], is_url)?;
    for (name, function) in [
        ("getScheme", scheme as Function),
        ("getHost", host),
        ("getHostname", hostname),
        ("getPort", port),
        ("getEscapedPath", path),
        ("getQuery", query),
    ] {
        env.add_member_overload(
            name,
            &format!("url_{name}"),
            TYPE.to_owned(),
            vec![],
            function,
        )?;
    }
    Ok(())
}

impl Url {
    /// An absolute URL, or an absolute path.
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() || text.contains(|c: char| c.is_ascii_control()) {
            return None;
        }
        let (before, query) = text.split_once('?').unwrap_or((text, ""));
        let mut url = Self {
            query: query.split('#').next().unwrap_or_default().to_owned(),
            ..Self::default()
        };
        let rest = if before.starts_with('/') {
            before
        } else {
            let (scheme, rest) = before.split_once(':')?;
            let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            if !is_scheme {
                return None;
            }
            url.scheme = scheme.to_lowercase();
            rest
        };
        let path = match rest.strip_prefix("//") {
            Some(rest) if !url.scheme.is_empty() => {
                let end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(end);
                let host = authority.rsplit('@').next().unwrap_or_default();
                if !is_host(host) {
                    return None;
                }
                host.clone_into(&mut url.host);
                path
            }
            _ => rest,
        };
        if !is_encoded(path) {
            return None;
        }
        path.clone_into(&mut url.path);
        Some(url)
    }

    /// The host without its port, and the port.
    fn parts(&self) -> (&str, &str) {
        let end = self.host.rfind(']').map_or(0, |at| at + 1);
        match self.host[end..].find(':') {
            Some(at) => (&self.host[..end + at], &self.host[end + at + 1..]),
            None => (&self.host, ""),
        }
    }
}

fn is_host(host: &str) -> bool {
    let end = if let Some(rest) = host.strip_prefix('[') {
        let Some(end) = rest.find(']') else {
            return false;
        };
        if rest[..end]
            .split('%')
            .next()
            .unwrap_or_default()
            .parse::<std::net::Ipv6Addr>()
            .is_err()
        {
            return false;
        }
        &rest[end + 1..]
    } else {
        if host.contains(|c: char| " \"<>\\^`{|}".contains(c)) {
            return false;
        }
        host.find(':').map_or("", |at| &host[at..])
    };
    let port = end.strip_prefix(':').unwrap_or(end);
    port.chars().all(|c| c.is_ascii_digit()) && (end.is_empty() || end.starts_with(':'))
}

/// Whether every percent sign begins an escape.
fn is_encoded(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let mut signs = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    signs.all(|(at, _)| is_digit(at + 1) && is_digit(at + 2))
}

fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/%[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn unescaped(text: &str) -> String {
    let plus = text.replace('+', " ");
    let bytes = plus.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|two| std::str::from_utf8(two).ok());
        let escape = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (bytes[at], escape) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn to_url<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&args, 0)?;
    custom(Url::parse(&text).ok_or_else(|| failed("url", "not a URL"))?)
}

fn is_url<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::Bool(Url::parse(&string(&args, 0)?).is_some()))
}

fn scheme<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::from(own::<Url>(&args, 0)?.scheme.clone()))
}

fn host<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::from(own::<Url>(&args, 0)?.host.clone()))
}

fn hostname<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let name = own::<Url>(&args, 0)?.parts().0;
    answer(Value::from(name.trim_matches(['[', ']']).to_owned()))
}

fn port<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::from(own::<Url>(&args, 0)?.parts().1.to_owned()))
}

fn path<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    answer(Value::from(escaped(&own::<Url>(&args, 0)?.path)))
}

fn query<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let url = own::<Url>(&args, 0)?;
    let mut found: HashMap<String, Vec<Value>> = HashMap::new();
    for pair in url.query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let values = found.entry(unescaped(key)).or_default();
        values.push(Value::from(unescaped(value)));
    }
    let map: HashMap<Key, Value> = found
        .into_iter()
        .map(|(key, values)| (Key::String(Arc::new(key)), Value::List(Arc::new(values))))
        .collect();
    answer(Value::Map(Map { map: Arc::new(map) }))
}
