//! Tokens: each user makes and takes back their own, an administrator anybody's.
//!
//! A token is a Secret of the system namespace, as the embedded API server reads them. Users have no
//! rights there, so this acts with the product's own, after it has made sure whose token it is about.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use sha2::{Digest, Sha256};

use super::users::{TOKEN_NAMESPACE, TOKEN_TYPE};
use super::{Error, Result};
use crate::context::Context;
use crate::form::name;
use crate::identity::{Caller, MASTERS};
use crate::model::{CreatedToken, FieldError, NewToken, Token};
use crate::names;

/// A user has at most this many.
const MOST: usize = 100;

/// Ten years.
const LONGEST_SECONDS: i64 = 315_360_000;
const SHORTEST_SECONDS: i64 = 60;

/// The tokens of a user: the caller, or for administrators anybody.
pub(crate) async fn list(
    context: &Context,
    caller: &Caller,
    user: Option<&str>,
) -> Result<Vec<Token>> {
    let user = whose(caller, user)?;
    let mut tokens: Vec<Token> = secrets_of(context, &user)
        .await?
        .iter()
        .map(|secret| view(context, caller, secret))
        .collect();
    tokens.sort_by(|left, right| (left.created_at, &left.id).cmp(&(right.created_at, &right.id)));
    Ok(tokens)
}

/// Makes a token. It can do what its user can, and does not outlive the token it was asked with:
/// whoever finds a token that ends tomorrow must not be able to stay.
pub(crate) async fn create(
    context: &Context,
    caller: &Caller,
    wanted: &NewToken,
) -> Result<CreatedToken> {
    if !context.manages_users {
        return Err(Error::users_are_the_clusters());
    }
    let user = whose(caller, wanted.user.as_deref())?;
    let now = context.now();
    let mut wrong = Vec::new();
    if let Err(message) = name::check_text(&wanted.name, 63) {
        wrong.push(FieldError::new("name", message));
    }
    let range = SHORTEST_SECONDS..=LONGEST_SECONDS;
    if let Some(seconds) = wanted.expires_in_seconds
        && !range.contains(&seconds)
    {
        let message =
            format!("must be from {SHORTEST_SECONDS} to {LONGEST_SECONDS}, not {seconds}");
        wrong.push(FieldError::new("expires_in_seconds", message));
    }
    if !wrong.is_empty() {
        return Err(Error::Invalid(wrong));
    }
    let asked = wanted
        .expires_in_seconds
        .map(|seconds| now.as_second() + seconds);
    let expires = match (asked, caller.expires_at) {
        (Some(asked), Some(own)) => Some(asked.min(own)),
        (asked, own) => asked.or(own),
    };
    let known = secrets_of(context, &user).await?;
    let groups = if user == caller.user {
        caller.is_admin()
    } else {
        let first = known
            .iter()
            .find(|secret| secret.labels().contains_key(names::USER_NAMESPACE));
        let first =
            first.ok_or_else(|| Error::invalid("user", format!("there is no user {user:?}")))?;
        text(first, "groups").is_some_and(|groups| groups.contains(MASTERS))
    };
    if known.len() >= MOST {
        return Err(Error::Conflict(format!(
            "{user} has {MOST} tokens already; take one back first"
        )));
    }
    let token = crate::random_text(40);
    let digest = hex::encode(Sha256::digest(token.as_bytes()));
    let mut data = vec![
        ("user", user.clone()),
        ("groups", if groups { MASTERS } else { "" }.to_owned()),
        ("token-sha256", digest),
    ];
    if let Some(expires) = expires {
        data.push(("expires-at", expires.to_string()));
    }
    let data = data
        .into_iter()
        .map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(format!("token-{}", crate::random_text(16))),
            labels: Some([(names::USER.to_owned(), user)].into()),
            annotations: Some([(names::TOKEN_NAME.to_owned(), wanted.name.clone())].into()),
            ..ObjectMeta::default()
        },
        type_: Some(TOKEN_TYPE.to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    };
    let made = secrets(context)
        .create(&PostParams::default(), &secret)
        .await
        .map_err(|error| Error::cluster("store the token", error))?;
    Ok(CreatedToken {
        info: view(context, caller, &made),
        token,
    })
}

/// Takes a token back. Whether there is one of somebody else stays untold.
pub(crate) async fn revoke(context: &Context, caller: &Caller, id: &str) -> Result<()> {
    let missing = || Error::NotFound {
        kind: "token",
        name: id.to_owned(),
        namespace: String::new(),
    };
    let secret = secrets(context)
        .get_opt(id)
        .await
        .map_err(|error| Error::cluster("read the token", error))?;
    let secret = secret.filter(|secret| secret.type_.as_deref() == Some(TOKEN_TYPE));
    let secret = secret.ok_or_else(missing)?;
    let own = text(&secret, "user").as_deref() == Some(&caller.user);
    if !own && !caller.is_admin() {
        return Err(missing());
    }
    secrets(context)
        .delete(id, &DeleteParams::default())
        .await
        .map_err(|error| Error::cluster("take the token back", error))?;
    context.gate.forget_tokens();
    Ok(())
}

pub(super) async fn revoke_all(context: &Context, user: &str) -> Result<()> {
    for secret in secrets_of(context, user).await? {
        let gone = secrets(context)
            .delete(&secret.name_any(), &DeleteParams::default())
            .await;
        match gone {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(Error::cluster("take a token back", error)),
        }
    }
    context.gate.forget_tokens();
    Ok(())
}

fn whose(caller: &Caller, asked: Option<&str>) -> Result<String> {
    let user = asked.unwrap_or(&caller.user);
    if user != caller.user && !caller.is_admin() {
        return Err(Error::Forbidden(format!(
            "{} may not manage the tokens of {user:?}",
            caller.user
        )));
    }
    // A user of another kind, such as a service account, has no tokens of ours.
    match name::user_label(user) {
        Ok(label) if label == user => Ok(user.to_owned()),
        _ => Err(Error::invalid(
            "user",
            format!("{user:?} has no tokens here"),
        )),
    }
}

async fn secrets_of(context: &Context, user: &str) -> Result<Vec<Secret>> {
    let parameters = ListParams::default().labels(&format!("{}={user}", names::USER));
    let found = secrets(context)
        .list(&parameters)
        .await
        .map_err(|error| Error::cluster("list the tokens", error))?;
    let tokens = found.items.into_iter();
    Ok(tokens
        .filter(|secret| secret.type_.as_deref() == Some(TOKEN_TYPE))
        .filter(|secret| text(secret, "user").as_deref() == Some(user))
        .collect())
}

fn secrets(context: &Context) -> Api<Secret> {
    Api::namespaced(context.client.clone(), TOKEN_NAMESPACE)
}

fn view(context: &Context, caller: &Caller, secret: &Secret) -> Token {
    let expires = text(secret, "expires-at").and_then(|text| text.parse::<i64>().ok());
    let id = secret.name_any();
    Token {
        user: text(secret, "user").unwrap_or_default(),
        name: secret
            .annotations()
            .get(names::TOKEN_NAME)
            .cloned()
            .unwrap_or_else(|| "sign-up".to_owned()),
        created_at: secret.creation_timestamp().map(|time| time.0),
        expires_at: expires.and_then(|second| Timestamp::from_second(second).ok()),
        expired: expires.is_some_and(|second| second <= context.now().as_second()),
        current: caller.token.as_ref() == Some(&id),
        id,
    }
}

fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}
