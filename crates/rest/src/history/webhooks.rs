//! Webhooks, what they have been told, and what they are still to be told.

use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use super::{History, Result};
use crate::model::{Webhook, WebhookEvent};

pub(super) const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS webhook (
        id TEXT PRIMARY KEY,
        namespace TEXT NOT NULL,
        namespace_uid TEXT NOT NULL,
        url TEXT NOT NULL,
        secret TEXT NOT NULL,
        events TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        created_by TEXT NOT NULL,
        last_delivered_at INTEGER,
        last_error TEXT
    ) STRICT;
    CREATE INDEX IF NOT EXISTS webhook_by_namespace ON webhook (namespace);
    CREATE TABLE IF NOT EXISTS delivery (
        id TEXT PRIMARY KEY,
        webhook TEXT NOT NULL,
        event TEXT NOT NULL,
        body TEXT NOT NULL,
        attempts INTEGER NOT NULL,
        next_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS delivery_by_time ON delivery (next_at);
    CREATE TABLE IF NOT EXISTS noticed (
        uid TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        restarts INTEGER NOT NULL
    ) STRICT;
";

/// A webhook with what clients do not see.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) webhook: Webhook,
    /// A namespace of the same name that is made later is another one.
    pub(crate) namespace_uid: String,
    pub(crate) secret: String,
}

/// A notification that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) webhook: String,
    pub(crate) event: String,
    pub(crate) body: String,
    pub(crate) attempts: i64,
}

const COLUMNS: &str = "id, namespace, namespace_uid, url, secret, events, created_at, created_by, \
    last_delivered_at, last_error, (SELECT count(*) FROM delivery WHERE delivery.webhook = webhook.id)";

impl History {
    pub(crate) fn put_webhook(&self, stored: &Stored) -> Result<()> {
        let webhook = &stored.webhook;
        let events = serde_json::to_string(&webhook.events)?;
        self.with(|connection| {
            connection.execute(
                "INSERT INTO webhook (id, namespace, namespace_uid, url, secret, events, created_at, created_by)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    webhook.id,
                    webhook.namespace,
                    stored.namespace_uid,
                    webhook.url,
                    stored.secret,
                    events,
                    webhook.created_at.as_second(),
                    webhook.created_by
                ],
            )?;
            Ok(())
        })
    }

    pub(crate) fn webhooks(&self, namespace: &str) -> Result<Vec<Stored>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM webhook WHERE namespace = ?1 ORDER BY created_at, id"
            ))?;
            let rows = statement.query_map([namespace], stored)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    pub(crate) fn webhook(&self, id: &str) -> Result<Option<Stored>> {
        self.with(|connection| {
            let mut statement = connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM webhook WHERE id = ?1"))?;
            Ok(statement.query_row([id], stored).optional()?)
        })
    }

    /// Removes a webhook with what it was still to be told.
    pub(crate) fn remove_webhook(&self, id: &str) -> Result<()> {
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            transaction.execute("DELETE FROM webhook WHERE id = ?1", [id])?;
            transaction.execute("DELETE FROM delivery WHERE webhook = ?1", [id])?;
            transaction.commit()?;
            Ok(())
        })
    }

    /// What was last noticed of a job: its state and its restarts.
    pub(crate) fn noticed(&self, uid: &str) -> Result<Option<(String, i64)>> {
        self.with(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT state, restarts FROM noticed WHERE uid = ?1")?;
            let row = statement.query_row([uid], |row| Ok((row.get(0)?, row.get(1)?)));
            Ok(row.optional()?)
        })
    }

    /// Notes the state of a job together with the notifications that it causes: after a crash there
    /// are both or neither.
    pub(crate) fn notice(
        &self,
        uid: &str,
        state: &str,
        restarts: i64,
        deliveries: &[Delivery],
        now: Timestamp,
    ) -> Result<()> {
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            transaction.execute(
                "INSERT OR REPLACE INTO noticed (uid, state, restarts) VALUES (?1, ?2, ?3)",
                params![uid, state, restarts],
            )?;
            for delivery in deliveries {
                transaction.execute(
                    "INSERT INTO delivery (id, webhook, event, body, attempts, next_at) VALUES (?1, ?2, ?3, ?4, 0, ?5)",
                    params![
                        delivery.id,
                        delivery.webhook,
                        delivery.event,
                        delivery.body,
                        now.as_second()
                    ],
                )?;
            }
            transaction.commit()?;
            Ok(())
        })
    }

    /// The notifications that are due, the oldest first.
    pub(crate) fn due(&self, now: Timestamp, limit: i64) -> Result<Vec<Delivery>> {
        self.with(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, webhook, event, body, attempts FROM delivery WHERE next_at <= ?1
                 ORDER BY next_at, rowid LIMIT ?2",
            )?;
            let rows = statement.query_map(params![now.as_second(), limit], |row| {
                Ok(Delivery {
                    id: row.get(0)?,
                    webhook: row.get(1)?,
                    event: row.get(2)?,
                    body: row.get(3)?,
                    attempts: row.get(4)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// A notification has arrived.
    pub(crate) fn delivered(&self, delivery: &Delivery, now: Timestamp) -> Result<()> {
        self.with(|connection| {
            connection.execute("DELETE FROM delivery WHERE id = ?1", [&delivery.id])?;
            connection.execute(
                "UPDATE webhook SET last_delivered_at = ?2, last_error = NULL WHERE id = ?1",
                params![delivery.webhook, now.as_second()],
            )?;
            Ok(())
        })
    }

    /// An attempt failed; it is tried again at `next`, or given up.
    pub(crate) fn undelivered(
        &self,
        delivery: &Delivery,
        error: &str,
        next: Option<Timestamp>,
    ) -> Result<()> {
        self.with(|connection| {
            match next {
                Some(next) => connection.execute(
                    "UPDATE delivery SET attempts = attempts + 1, next_at = ?2 WHERE id = ?1",
                    params![delivery.id, next.as_second()],
                )?,
                None => connection.execute("DELETE FROM delivery WHERE id = ?1", [&delivery.id])?,
            };
            connection.execute(
                "UPDATE webhook SET last_error = ?2 WHERE id = ?1",
                params![delivery.webhook, error],
            )?;
            Ok(())
        })
    }
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let events: String = row.get(5)?;
    let events: Vec<WebhookEvent> = serde_json::from_str(&events).unwrap_or_default();
    let time = |second: i64| Timestamp::from_second(second).unwrap_or_default();
    Ok(Stored {
        webhook: Webhook {
            id: row.get(0)?,
            namespace: row.get(1)?,
            url: row.get(3)?,
            events,
            created_at: time(row.get(6)?),
            created_by: row.get(7)?,
            last_delivered_at: row.get::<_, Option<i64>>(8)?.map(time),
            last_error: row.get(9)?,
            pending: row.get(10)?,
            secret: None,
        },
        namespace_uid: row.get(2)?,
        secret: row.get(4)?,
    })
}
