//! Sessions of browsers that signed in with a provider.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::{History, Result};
use crate::identity::Caller;

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS session (
        digest TEXT PRIMARY KEY,
        user TEXT NOT NULL,
        groups TEXT NOT NULL,
        expires_at INTEGER NOT NULL
    ) STRICT;
";

/// What the tokens of sessions begin with.
pub(crate) const SESSION_PREFIX: &str = "session-";

impl History {
    /// Begins a session and returns its token; only the digest is kept.
    pub(crate) fn begin_session(&self, caller: &Caller, expires: Timestamp) -> Result<String> {
        let token = format!("{SESSION_PREFIX}{}", crate::random_text(48));
        let groups = serde_json::to_string(&caller.groups)?;
        self.with(|connection| {
            connection.execute(
                "INSERT INTO session (digest, user, groups, expires_at) VALUES (?1, ?2, ?3, ?4)",
                params![digest(&token), caller.user, groups, expires.as_second()],
            )?;
            Ok(())
        })?;
        Ok(token)
    }

    /// Whose session this is.
    pub(crate) fn session(&self, token: &str, now: Timestamp) -> Result<Option<Caller>> {
        self.with(|connection| {
            let found = connection
                .query_row(
                    "SELECT user, groups, expires_at FROM session WHERE digest = ?1 AND expires_at > ?2",
                    params![digest(token), now.as_second()],
                    |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)),
                )
                .optional()?;
            let Some((user, groups, expires_at)) = found else {
                return Ok(None);
            };
            Ok(Some(Caller {
                user,
                groups: serde_json::from_str(&groups)?,
                token: None,
                expires_at: Some(expires_at),
                admin: false,
                credential: None,
            }))
        })
    }

    pub(crate) fn end_session(&self, token: &str) -> Result<()> {
        self.with(|connection| {
            connection.execute("DELETE FROM session WHERE digest = ?1", [digest(token)])?;
            Ok(())
        })
    }

    pub(crate) fn expire_sessions(&self, now: Timestamp) -> Result<()> {
        self.with(|connection| {
            connection.execute(
                "DELETE FROM session WHERE expires_at <= ?1",
                [now.as_second()],
            )?;
            Ok(())
        })
    }
}

fn digest(token: &str) -> String {
    hex::encode(Sha256::digest(token.as_bytes()))
}
