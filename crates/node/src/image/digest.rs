//! Content digests: `sha256:…` and `sha512:…`.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256, Sha512};

/// A digest whose form was checked: it is safe as part of a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Digest(String);

impl Digest {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (algorithm, value) = text.split_once(':')?;
        let length = match algorithm {
            "sha256" => 64,
            "sha512" => 128,
            _ => return None,
        };
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (value.len() == length && value.bytes().all(is_hex)).then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// A name for a directory: short, because all layers' paths must fit into one mount option.
    pub(super) fn short(&self) -> &str {
        let value = self.0.split_once(':').map_or("", |(_, value)| value);
        &value[..24]
    }

    pub(super) fn file_name(&self) -> String {
        self.0.replace(':', "-")
    }

    pub(super) fn hasher(&self) -> Hasher {
        if self.0.starts_with("sha512") {
            Hasher::Sha512(Box::new(Sha512::new()))
        } else {
            Hasher::sha256()
        }
    }
}

pub(super) enum Hasher {
    Sha256(Box<Sha256>),
    Sha512(Box<Sha512>),
}

impl Hasher {
    pub(super) fn sha256() -> Self {
        Self::Sha256(Box::new(Sha256::new()))
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Digest {
        Digest(match self {
            Self::Sha256(hasher) => format!("sha256:{}", hex(&hasher.finalize())),
            Self::Sha512(hasher) => format!("sha512:{}", hex(&hasher.finalize())),
        })
    }
}

/// Hashes and counts what is read through it.
pub(super) struct Hashing<R> {
    pub(super) inner: R,
    pub(super) hasher: Hasher,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_digests_are_digests() {
        let good = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(Digest::parse(&good).unwrap().short(), "0a".repeat(12));
        for bad in [
            "sha256:short".to_owned(),
            format!("sha256:{}", "0A".repeat(32)),
            format!("md5:{}", "0a".repeat(32)),
            format!("sha256:../{}", "a".repeat(61)),
        ] {
            assert_eq!(Digest::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_hash_is_what_the_standard_says() {
        let digest = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
        let mut reading = Hashing {
            inner: &b"abc"[..],
            hasher: digest.hasher(),
        };
        io::copy(&mut reading, &mut io::sink()).unwrap();
        let want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(reading.hasher.finish().as_str(), want);
    }
}
