//! Telling a namespace's webhooks what became of its jobs.
//!
//! | task | input | output |
//! |---|---|---|
//! | the recorder | a job's record | [`notice`]: the state that was seen, and notifications to send |
//! | [`run`] | notifications that are due | requests; what failed is tried again later |
//!
//! # Guarantees
//!
//! A notification is on disk before anybody is told, together with the state that caused it, and
//! stays there until it has arrived or was tried for hours. So it arrives at least once, and
//! receivers tell repetitions by `X-Astrago-Delivery`.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kube::ResourceExt;

use super::{Error, Result};
use crate::context::Context;
use crate::history::{Delivery, Stored};
use crate::identity::{Access, Caller};
use crate::model::{
    FieldError, JobState, JobSummary, Notification, TestedWebhook, Webhook, WebhookEvent,
    WebhookRequest,
};
use crate::world::Key;
use crate::{outbound, signature};

/// A namespace has at most this many.
const MOST: usize = 20;

/// The first pause after a failure; each further one is twice as long, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: i64 = 5;
const LONGEST_PAUSE: i64 = 3600;

/// How many attempts, over most of a day, before a notification is given up.
const ATTEMPTS: i64 = 30;

/// How many notifications are under way at once.
const AT_ONCE: usize = 16;

/// How often it is looked for notifications whose time has come.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn list(
    context: &Context,
    caller: &Caller,
    namespace: &str,
) -> Result<Vec<Webhook>> {
    demand(context, caller, namespace).await?;
    let stored = context.history.webhooks(namespace).map_err(Error::disk)?;
    let own = uid_of(context, namespace);
    let own = stored
        .into_iter()
        .filter(|stored| Some(&stored.namespace_uid) == own.as_ref());
    Ok(own.map(|stored| stored.webhook).collect())
}

pub(crate) async fn create(
    context: &Context,
    caller: &Caller,
    namespace: &str,
    request: WebhookRequest,
) -> Result<Webhook> {
    demand(context, caller, namespace).await?;
    let mut wrong = Vec::new();
    if let Err(message) = context.outbound.check(&request.url) {
        wrong.push(FieldError::new("url", message));
    }
    if let Some(secret) = &request.secret
        && !(16..=256).contains(&secret.len())
    {
        let message = "must have between 16 and 256 characters";
        wrong.push(FieldError::new("secret", message));
    }
    if request.events.contains(&WebhookEvent::Test) {
        wrong.push(FieldError::new(
            "events",
            "\"test\" is sent on request only",
        ));
    }
    if !wrong.is_empty() {
        return Err(Error::Invalid(wrong));
    }
    let namespace_uid = uid_of(context, namespace).ok_or_else(|| Error::NotFound {
        kind: "namespace",
        name: namespace.to_owned(),
        namespace: String::new(),
    })?;
    if list(context, caller, namespace).await?.len() >= MOST {
        return Err(Error::Conflict(format!(
            "namespace {namespace:?} has {MOST} webhooks already; delete one first"
        )));
    }
    let mut events = request.events;
    events.sort_unstable();
    events.dedup();
    let secret = request.secret.unwrap_or_else(|| crate::random_text(40));
    let stored = Stored {
        webhook: Webhook {
            id: crate::random_text(16),
            namespace: namespace.to_owned(),
            url: request.url,
            events,
            created_at: context.now(),
            created_by: caller.user.clone(),
            pending: 0,
            last_delivered_at: None,
            last_error: None,
            secret: None,
        },
        namespace_uid,
        secret: secret.clone(),
    };
    context.history.put_webhook(&stored).map_err(Error::disk)?;
    Ok(Webhook {
        secret: Some(secret),
        ..stored.webhook
    })
}

pub(crate) async fn remove(context: &Context, caller: &Caller, id: &str) -> Result<()> {
    let stored = find(context, caller, id).await?;
    context
        .history
        .remove_webhook(&stored.webhook.id)
        .map_err(Error::disk)
}

/// Sends a test at once and tells how it went.
pub(crate) async fn test(context: &Context, caller: &Caller, id: &str) -> Result<TestedWebhook> {
    let stored = find(context, caller, id).await?;
    let notification = Notification {
        event: WebhookEvent::Test,
        time: context.now(),
        namespace: stored.webhook.namespace.clone(),
        job: "test".to_owned(),
        uid: String::new(),
        user: Some(caller.user.clone()),
        state: JobState::Complete.as_str().to_owned(),
        message: "a test of this webhook".to_owned(),
        restarts: 0,
    };
    let delivery = delivery(&stored, &notification)?;
    Ok(match send(context, &stored, &delivery).await {
        Ok(status) => TestedWebhook {
            delivered: true,
            status: Some(status),
            error: None,
        },
        Err(error) => TestedWebhook {
            delivered: false,
            status: match error {
                outbound::Error::Status(status) => Some(status),
                _ => None,
            },
            error: Some(error.to_string()),
        },
    })
}

/// A webhook that the caller may know of. Whether there is one that they may not know of stays
/// untold.
async fn find(context: &Context, caller: &Caller, id: &str) -> Result<Stored> {
    let missing = || Error::NotFound {
        kind: "webhook",
        name: id.to_owned(),
        namespace: String::new(),
    };
    let stored = context.history.webhook(id).map_err(Error::disk)?;
    let stored = stored.ok_or_else(missing)?;
    let namespace = &stored.webhook.namespace;
    let same = uid_of(context, namespace).as_ref() == Some(&stored.namespace_uid);
    match demand(context, caller, namespace).await {
        Ok(()) if same => Ok(stored),
        Ok(()) | Err(Error::Forbidden(_)) => Err(missing()),
        Err(error) => Err(error),
    }
}

/// Webhooks are for those who may change the namespace's jobs.
async fn demand(context: &Context, caller: &Caller, namespace: &str) -> Result<()> {
    let access = Access::jobs("update", namespace);
    context.gate.demand(caller, &access).await
}

fn uid_of(context: &Context, namespace: &str) -> Option<String> {
    let mirrors = &context.world.mirrors;
    mirrors.namespaces.get(&Key::new("", namespace))?.uid()
}

/// Looks at a job's record for something that its namespace wants to be told.
pub(crate) fn notice(context: &Context, summary: &JobSummary) {
    if let Err(error) = try_notice(context, summary) {
        let error = crate::error::chain(&error);
        tracing::error!(
            job = summary.name,
            error,
            "failed to note what webhooks are to be told"
        );
    }
}

fn try_notice(context: &Context, summary: &JobSummary) -> Result<()> {
    let known = context.history.noticed(&summary.uid).map_err(Error::disk)?;
    let state = summary.state.as_str();
    let (known_state, known_restarts) = match &known {
        Some((state, restarts)) => (state.as_str(), *restarts),
        None => ("", 0),
    };
    if (known_state, known_restarts) == (state, summary.restarts) {
        return Ok(());
    }
    let mut events = Vec::new();
    // Pods that go take their restart counts with them; a count that falls is no news.
    if summary.restarts > known_restarts && !summary.state.is_finished() {
        events.push((WebhookEvent::Restarted, context.now()));
    }
    if state != known_state {
        let at = summary.completed_at.unwrap_or_else(|| context.now());
        match summary.state {
            JobState::Complete => events.push((WebhookEvent::Completed, at)),
            JobState::Failed => events.push((WebhookEvent::Failed, at)),
            JobState::Pending | JobState::Running | JobState::Restarting | JobState::Suspended => {}
        }
    }
    if events.is_empty() && summary.restarts <= known_restarts {
        return Ok(());
    }
    let mut deliveries = Vec::new();
    if !events.is_empty() {
        let own = uid_of(context, &summary.namespace);
        let stored = context
            .history
            .webhooks(&summary.namespace)
            .map_err(Error::disk)?;
        for stored in stored {
            let webhook = &stored.webhook;
            for (event, time) in &events {
                let wanted = webhook.events.is_empty() || webhook.events.contains(event);
                // What happened before somebody asked to be told is no news.
                let news = time.as_second() >= webhook.created_at.as_second();
                if wanted && news && Some(&stored.namespace_uid) == own.as_ref() {
                    let notification = notification(*event, *time, summary);
                    deliveries.push(delivery(&stored, &notification)?);
                }
            }
        }
    }
    let restarts = summary.restarts.max(known_restarts);
    context
        .history
        .notice(&summary.uid, state, restarts, &deliveries, context.now())
        .map_err(Error::disk)?;
    if !deliveries.is_empty() {
        context.deliveries.notify_one();
    }
    Ok(())
}

fn notification(event: WebhookEvent, time: Timestamp, summary: &JobSummary) -> Notification {
    Notification {
        event,
        time,
        namespace: summary.namespace.clone(),
        job: summary.name.clone(),
        uid: summary.uid.clone(),
        user: summary.user.clone(),
        state: summary.state.as_str().to_owned(),
        message: summary.message.clone(),
        restarts: summary.restarts,
    }
}

fn delivery(stored: &Stored, notification: &Notification) -> Result<Delivery> {
    let body = serde_json::to_string(notification).map_err(Error::disk)?;
    Ok(Delivery {
        id: crate::random_text(20),
        webhook: stored.webhook.id.clone(),
        event: notification.event.as_str().to_owned(),
        body,
        attempts: 0,
    })
}

/// Sends what is due until the context stops.
pub(crate) async fn run(context: Arc<Context>) {
    // What came to its end while nobody looked is noticed now.
    for job in context.world.mirrors.train_jobs.all() {
        let key = Key::of(&*job);
        let job = crate::view::Job::find(&context.world.mirrors, &key);
        if let Some(job) = job {
            notice(&context, &super::jobs::summary(&context, &job));
        }
    }
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = context.deliveries.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
        let due = match context.history.due(context.now(), 64) {
            Ok(due) => due,
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::error!(error, "failed to read what webhooks are to be told");
                continue;
            }
        };
        let sent = futures::stream::iter(due)
            .for_each_concurrent(AT_ONCE, |delivery| attempt(&context, delivery));
        tokio::select! {
            () = context.stop.cancelled() => return,
            () = sent => {}
        }
    }
}

async fn attempt(context: &Context, delivery: Delivery) {
    let result = match context.history.webhook(&delivery.webhook) {
        Ok(Some(stored)) => match send(context, &stored, &delivery).await {
            Ok(_) => context.history.delivered(&delivery, context.now()),
            Err(error) => {
                let next = next_attempt(delivery.attempts, context.now());
                context
                    .history
                    .undelivered(&delivery, &error.to_string(), next)
            }
        },
        // The webhook is gone, and its deliveries with it.
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        let error = crate::error::chain(&error);
        tracing::error!(
            delivery = delivery.id,
            error,
            "failed to note how a notification went"
        );
    }
}

/// When to try again after one more attempt; `None` when it was the last.
fn next_attempt(attempts: i64, now: Timestamp) -> Option<Timestamp> {
    if attempts + 1 >= ATTEMPTS {
        return None;
    }
    let doubled = u32::try_from(attempts)
        .ok()
        .and_then(|n| 2_i64.checked_pow(n));
    let pause = doubled
        .and_then(|factor| FIRST_PAUSE.checked_mul(factor))
        .unwrap_or(LONGEST_PAUSE)
        .min(LONGEST_PAUSE);
    Timestamp::from_second(now.as_second() + pause).ok()
}

async fn send(
    context: &Context,
    stored: &Stored,
    delivery: &Delivery,
) -> Result<u16, outbound::Error> {
    let timestamp = context.now().as_second();
    let headers = [
        ("x-astrago-event", delivery.event.clone()),
        ("x-astrago-delivery", delivery.id.clone()),
        ("x-astrago-timestamp", timestamp.to_string()),
        (
            "x-astrago-signature",
            signature::sign(&stored.secret, timestamp, &delivery.body),
        ),
    ];
    context
        .outbound
        .post(&stored.webhook.url, &headers, delivery.body.clone())
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_an_hour_and_attempts_end() {
        let now = Timestamp::UNIX_EPOCH;
        let pause = |attempts| next_attempt(attempts, now).map(Timestamp::as_second);
        assert_eq!(
            (pause(0), pause(1), pause(2)),
            (Some(5), Some(10), Some(20))
        );
        assert_eq!(
            (pause(10), pause(28), pause(29)),
            (Some(3600), Some(3600), None)
        );
    }
}
