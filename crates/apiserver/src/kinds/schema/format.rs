//! The `format`s of strings that are checked. Kubernetes ignores formats it does not know.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Format {
    #[strum(serialize = "datetime", to_string = "date-time")]
    DateTime,
    Date,
    Duration,
    Byte,
    Ipv4,
    Ipv6,
    Cidr,
    Uuid,
    Uri,
    Hostname,
    Email,
}

impl Format {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.into()
    }

    pub(crate) fn accepts(self, text: &str) -> bool {
        match self {
            Self::DateTime => text.parse::<jiff::Timestamp>().is_ok(),
            Self::Date => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
            Self::Duration => is_duration(text),
            Self::Byte => base64::engine::general_purpose::STANDARD
                .decode(text)
                .is_ok(),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Cidr => is_cidr(text),
            Self::Uuid => is_uuid(text),
            Self::Uri => text.split_once(':').is_some_and(|(scheme, _)| {
                scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            }),
            Self::Hostname => is_hostname(text),
            Self::Email => text
                .split_once('@')
                .is_some_and(|(user, host)| !user.is_empty() && is_hostname(host)),
        }
    }
}

/// Go's `1h30m`, or the same in words as go-openapi reads it (`2 days`).
fn is_duration(text: &str) -> bool {
    #[rustfmt::skip]
    const UNITS: [&str; 30] = [
        "ns", "nano", "nanosecond", "nanoseconds", "us", "µs", "micro", "microsecond",
        "microseconds", "ms", "milli", "millisecond", "milliseconds", "s", "sec", "secs",
        "second", "seconds", "m", "min", "mins", "minute", "minutes", "h", "hr", "hour", "hours",
        "d", "day", "days",
    ];
    let mut rest = text.trim_start_matches(['-', '+']);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        if digits == 0 {
            return false;
        }
        rest = rest[digits..].trim_start();
        let unit = rest
            .find(|c: char| c.is_ascii_digit() || c == '.' || c.is_whitespace())
            .unwrap_or(rest.len());
        if !UNITS.contains(&&rest[..unit]) {
            return false;
        }
        rest = rest[unit..].trim_start();
    }
    true
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let Ok(bits) = bits.parse::<u8>() else {
        return false;
    };
    (address.parse::<Ipv4Addr>().is_ok() && bits <= 32)
        || (address.parse::<Ipv6Addr>().is_ok() && bits <= 128)
}

fn is_uuid(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_hexdigit).count();
    let dashes: Vec<_> = text.match_indices('-').map(|(at, _)| at).collect();
    digits == 32
        && digits + dashes.len() == text.len()
        && (dashes.is_empty() || dashes == [8, 13, 18, 23])
}

fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    !text.is_empty()
        && text.len() <= 255
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("date-time", "2026-11-15T20:00:00Z", "2026-11-15 at noon")]
    #[case("date-time", "2026-11-15T20:00:00+02:00", "yesterday")]
    #[case("date", "2026-11-15", "2026-13-01")]
    #[case("duration", "1h30m", "1 fortnight")]
    #[case("duration", "2 days", "h")]
    #[case("byte", "aGVsbG8=", "not base64!")]
    #[case("ipv4", "10.0.0.1", "10.0.0.256")]
    #[case("ipv6", "::1", "10.0.0.1")]
    #[case("cidr", "10.0.0.0/8", "10.0.0.0/33")]
    #[case("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b")]
    #[case("uri", "s3://bucket/key", "no scheme")]
    #[case("hostname", "a.example.com", "-a.example.com")]
    #[case("email", "a@example.com", "a.example.com")]
    fn accepts_and_refuses(#[case] name: &str, #[case] good: &str, #[case] bad: &str) {
        let format = Format::from_name(name).unwrap();
        assert!(format.accepts(good), "{good}");
        assert!(!format.accepts(bad), "{bad}");
    }
}
