//! `url('https://example.org/a?b=c')` and its functions.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the interpreter hands arguments over by value"
)]

use std::collections::HashMap;

use cel::common::types::{STRING_TYPE, Type};
use cel::{DeclarationError, Env};

use super::opaque::{Answer, Args, Custom, answer, custom, failed, members, own, string, truth};

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
    env.add_overload("isURL", "is_url", vec![STRING_TYPE], |args| {
        truth(Url::parse(&string(&args, 0)?).is_some())
    })?;
    members(
        env,
        &TYPE,
        "url",
        [
            ("getScheme", |args| {
                answer(own::<Url>(&args, 0)?.scheme.clone())
            }),
            ("getHost", |args| answer(own::<Url>(&args, 0)?.host.clone())),
            ("getHostname", |args| {
                let name = own::<Url>(&args, 0)?.parts().0;
                answer(name.trim_matches(['[', ']']))
            }),
            ("getPort", |args| answer(own::<Url>(&args, 0)?.parts().1)),
            ("getEscapedPath", |args| {
                answer(escaped(&own::<Url>(&args, 0)?.path))
            }),
            ("getQuery", query),
        ],
    )
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
    let end = match host.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((address, end))) => {
            let address = address.split('%').next().unwrap_or_default();
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            end
        }
        Some(None) => return false,
        None if host.contains(|c: char| " \"<>\\^`{|}".contains(c)) => return false,
        None => host.find(':').map_or("", |at| &host[at..]),
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
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:@/%[]".contains(byte);
    let bytes = path.bytes().map(|byte| match byte {
        byte if is_plain(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    bytes.collect()
}

fn to_url<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let text = string(&args, 0)?;
    custom(Url::parse(&text).ok_or_else(|| failed("url", "not a URL"))?)
}

fn query<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    for (key, value) in form_urlencoded::parse(own::<Url>(&args, 0)?.query.as_bytes()) {
        found
            .entry(key.into_owned())
            .or_default()
            .push(value.into_owned());
    }
    answer(found)
}
