//! Sessions of browsers that signed in with a provider.
//!
//! A session stands for the id token that it began with. What is kept opens with the session's own token only, of which
//! there is nothing here but a digest: whoever reads the file can act as nobody.

use jiff::Timestamp;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::{History, Result};

/// The sessions of earlier versions had no id token; whoever had one signs in again.
pub(super) const SCHEMA: &str = "
    DROP TABLE IF EXISTS session;
    CREATE TABLE IF NOT EXISTS browser_session (
        digest TEXT PRIMARY KEY,
        sealed BLOB NOT NULL,
        expires_at INTEGER NOT NULL
    ) STRICT;
";

/// What the tokens of sessions begin with.
pub(crate) const SESSION_PREFIX: &str = "session-";

impl History {
    /// Begins a session with an id token and returns the session's own.
    pub(crate) fn begin_session(&self, id_token: &str, expires: Timestamp) -> Result<String> {
        let token = format!("{SESSION_PREFIX}{}", crate::random_text(48));
        self.with(|connection| {
            connection.execute(
                "INSERT INTO browser_session (digest, sealed, expires_at) VALUES (?1, ?2, ?3)",
                params![digest(&token), seal(&token, id_token), expires.as_second()],
            )?;
            Ok(())
        })?;
        Ok(token)
    }

    /// The id token that a session began with.
    pub(crate) fn session(&self, token: &str, now: Timestamp) -> Result<Option<String>> {
        self.with(|connection| {
            let sealed: Option<Vec<u8>> = connection
                .query_row(
                    "SELECT sealed FROM browser_session WHERE digest = ?1 AND expires_at > ?2",
                    params![digest(token), now.as_second()],
                    |row| row.get(0),
                )
                .optional()?;
            Ok(sealed.and_then(|sealed| open(token, sealed)))
        })
    }

    pub(crate) fn end_session(&self, token: &str) -> Result<()> {
        self.with(|connection| {
            connection.execute(
                "DELETE FROM browser_session WHERE digest = ?1",
                [digest(token)],
            )?;
            Ok(())
        })
    }

    pub(crate) fn expire_sessions(&self, now: Timestamp) -> Result<()> {
        self.with(|connection| {
            connection.execute(
                "DELETE FROM browser_session WHERE expires_at <= ?1",
                [now.as_second()],
            )?;
            Ok(())
        })
    }
}

fn digest(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}

/// The key of a session. It seals one text, so that the nonce need not change.
fn key(token: &str) -> (LessSafeKey, Nonce) {
    let bytes = Sha256::digest(format!("what this seals: {token}"));
    let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).expect("a digest is as long as a key");
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    (LessSafeKey::new(key), nonce)
}

fn seal(token: &str, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let (key, nonce) = key(token);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes)
        .expect("the text is shorter than 256 GiB");
    bytes
}

fn open(token: &str, mut sealed: Vec<u8>) -> Option<String> {
    let (key, nonce) = key(token);
    let bytes = key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_session_opens_with_its_token_only() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let token = history.begin_session("the.id.token", at(100)).unwrap();
        let other = history.begin_session("another", at(100)).unwrap();
        let session = |token: &str, second| history.session(token, at(second)).unwrap();
        assert_eq!(session(&token, 99).as_deref(), Some("the.id.token"));
        assert_eq!(session(&token, 100), None, "it is over");
        assert_eq!(open(&other, seal(&token, "the.id.token")), None);
        assert!(!seal(&token, "the.id.token").starts_with(b"the"));
        history.end_session(&token).unwrap();
        assert_eq!(session(&token, 99), None, "it was ended");
    }
}
