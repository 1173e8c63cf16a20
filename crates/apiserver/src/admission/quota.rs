//! ResourceQuotas of everything but pods: how many objects of a resource a namespace may hold, and how much storage its
//! claims may ask for.
//!
//! A [`Ledger`] knows, for each namespace with a quota, what is used. The store's observer keeps it: what is
//! committed is counted on the writer's thread, before its author is answered. Who wants to add something makes a
//! reservation first, which counts as used until its write is committed or has failed. Both happen under one lock, so
//! creates that race for the last place cannot both get it, and no write waits for another.
//!
//! What pods request is not looked at here. A scheduler lets them wait for their part of a quota instead of refusing
//! them, and accounts for it in the same status.

mod charge;
mod status;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::Notify;

use crate::kinds::builtin::quantity;
use crate::store::{Change, Event, Name, Object, Query, Store};
use charge::{Charge, charge, is_counted};
pub(crate) use status::run;

pub(crate) const RESOURCE: &str = "resourcequotas";

/// What the quotas of this server allow, and what is used of it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    accounts: Mutex<HashMap<Arc<str>, Account>>,
    changed: Notify,
    tickets: AtomicU64,
}

/// By resource and name of the object, each charge under its ticket.
type Reservations = HashMap<(Arc<str>, Arc<str>), Vec<(u64, Charge)>>;

/// A namespace with at least one quota.
#[derive(Debug, Default)]
struct Account {
    /// Events up to this revision are in `used` already.
    as_of: u64,
    quotas: BTreeMap<Arc<str>, Limits>,
    used: Charge,
    /// By resource and name, each under its ticket.
    reserved: Reservations,
    /// A status may be out of date.
    dirty: bool,
}

/// The keys of one quota that are counted here, in billionths.
type Limits = BTreeMap<String, i128>;

/// Counts as used until it is dropped or its object is committed.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    namespace: Arc<str>,
    object: (Arc<str>, Arc<str>),
    ticket: u64,
}

/// A quota that has no room, in Kubernetes' words.
#[derive(Debug, thiserror::Error)]
#[error("exceeded quota: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
pub(crate) struct Exceeded {
    quota: Arc<str>,
    requested: String,
    used: String,
    limited: String,
}

impl Ledger {
    /// Takes over the quotas of a store that was just opened.
    pub(crate) fn load(&self, store: &Store) {
        let quotas = store.list(RESOURCE, &Query::default());
        let quotas = quotas.map(|page| page.objects).unwrap_or_default();
        let namespaces: BTreeSet<_> = quotas.iter().map(|quota| &quota.name.namespace).collect();
        let mut accounts = self.lock();
        for namespace in namespaces {
            if let Some(account) = Account::open(store, namespace) {
                accounts.insert(Arc::clone(namespace), account);
            }
        }
        self.changed.notify_one();
    }

    /// Follows a committed event. Runs on the writer's thread.
    pub(crate) fn observe(&self, store: &Store, resource: &Arc<str>, event: &Event) {
        let object = &event.object;
        let namespace = &object.name.namespace;
        if namespace.is_empty() {
            return;
        }
        let mut accounts = self.lock();
        if &**resource == RESOURCE {
            let quota = object.value();
            if event.change == Change::Modified
                && let Some(account) = accounts.get_mut(namespace)
                && let Some(known) = account.quotas.get(&object.name.name)
                && *known == limits(&quota)
            {
                // Anybody with the right to may have written the status, also of keys that are not counted here.
                if !status::is_shown(&quota, account, known) {
                    account.dirty = true;
                    self.changed.notify_one();
                }
                return;
            }
            let reserved = accounts.remove(namespace).map(|account| account.reserved);
            if let Some(account) = Account::open(store, namespace) {
                let reserved = reserved.unwrap_or_default();
                accounts.insert(
                    Arc::clone(namespace),
                    Account {
                        reserved,
                        ..account
                    },
                );
                self.changed.notify_one();
            }
            return;
        }
        let Some(account) = accounts.get_mut(namespace) else {
            return;
        };
        let key = (Arc::clone(resource), Arc::clone(&object.name.name));
        account.reserved.remove(&key);
        if object.revision <= account.as_of || !account.tracks(resource) {
            return;
        }
        let before = event.previous.as_deref().map(|one| of(resource, one));
        let after = (event.change != Change::Deleted).then(|| of(resource, object));
        let difference = difference(after.unwrap_or_default(), &before.unwrap_or_default());
        if difference.values().any(|amount| *amount != 0) {
            add(&mut account.used, &difference);
            account.dirty = true;
            self.changed.notify_one();
        }
    }

    /// Reserves what `new` takes more than `old`, if anything, or says which quota has no room for it.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        resource: &Arc<str>,
        name: &Name,
        new: &Value,
        old: Option<&Value>,
    ) -> Result<Option<Reservation>, Exceeded> {
        let mut accounts = self.lock();
        let Some(account) = accounts.get_mut(&name.namespace) else {
            return Ok(None);
        };
        if !account.tracks(resource) {
            return Ok(None);
        }
        let before = old.map(|old| charge(resource, || old.clone()));
        let after = charge(resource, || new.clone());
        let mut wanted = difference(after, &before.unwrap_or_default());
        wanted.retain(|_, amount| *amount > 0);
        let key = (Arc::clone(resource), Arc::clone(&name.name));
        account.check(&wanted, &key)?;
        if wanted.is_empty() {
            return Ok(None);
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let tickets = account.reserved.entry(key.clone()).or_default();
        tickets.push((ticket, wanted));
        Ok(Some(Reservation {
            ledger: Arc::clone(self),
            namespace: Arc::clone(&name.namespace),
            object: key,
            ticket,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut accounts = self.ledger.lock();
        let account = accounts.get_mut(&self.namespace);
        let Some(reserved) = account.map(|account| &mut account.reserved) else {
            return;
        };
        if let Some(tickets) = reserved.get_mut(&self.object) {
            tickets.retain(|(ticket, _)| *ticket != self.ticket);
            if tickets.is_empty() {
                reserved.remove(&self.object);
            }
        }
    }
}

impl Account {
    /// Counts what is in a namespace; `None` if it has no quota.
    fn open(store: &Store, namespace: &str) -> Option<Self> {
        // Before anything is counted: what comes later is counted by its event, too, unless it is left out there.
        let as_of = store.revision();
        let list = |resource: &str| {
            let query = Query {
                namespace,
                ..Query::default()
            };
            let page = store.list(resource, &query);
            page.map(|page| page.objects).unwrap_or_default()
        };
        let quotas: BTreeMap<_, _> = list(RESOURCE)
            .into_iter()
            .map(|quota| (Arc::clone(&quota.name.name), limits(&quota.value())))
            .collect();
        if quotas.is_empty() {
            return None;
        }
        let mut account = Self {
            as_of,
            quotas,
            dirty: true,
            ..Self::default()
        };
        let resources = account.quotas.values().flat_map(|limits| limits.keys());
        let resources: BTreeSet<_> = resources.map(|key| charge::resource(key)).collect();
        for resource in resources {
            for object in list(resource) {
                add(&mut account.used, &of(resource, &object));
            }
        }
        Some(account)
    }

    fn tracks(&self, resource: &str) -> bool {
        let mut keys = self.quotas.values().flat_map(|limits| limits.keys());
        keys.any(|key| charge::resource(key) == resource)
    }

    fn check(&self, wanted: &Charge, key: &(Arc<str>, Arc<str>)) -> Result<(), Exceeded> {
        // Of several who want to create the same object at most one will.
        let others = self.reserved.iter().filter(|(one, _)| *one != key);
        let mut taken = self.used.clone();
        for (_, charge) in others.flat_map(|(_, tickets)| tickets) {
            add(&mut taken, charge);
        }
        for (quota, limits) in &self.quotas {
            let used = |key: &str| taken.get(key).copied().unwrap_or(0);
            let over: Vec<_> = wanted
                .iter()
                .filter_map(|(key, amount)| Some((key, *amount, *limits.get(key)?)))
                .filter(|(key, amount, hard)| used(key) + amount > *hard)
                .collect();
            if over.is_empty() {
                continue;
            }
            let listed = |amount: &dyn Fn(&str, i128, i128) -> i128| {
                let texts = over.iter().map(|(key, wanted, hard)| {
                    format!("{key}={}", charge::shown(key, amount(key, *wanted, *hard)))
                });
                texts.collect::<Vec<_>>().join(",")
            };
            return Err(Exceeded {
                quota: Arc::clone(quota),
                requested: listed(&|_, wanted, _| wanted),
                used: listed(&|key, _, _| used(key)),
                limited: listed(&|_, _, hard| hard),
            });
        }
        Ok(())
    }
}

/// What a stored object takes.
fn of(resource: &str, object: &Object) -> Charge {
    charge(resource, || object.value())
}

/// The limits of a quota that are counted here. Quotas with scopes are about pods.
fn limits(quota: &Value) -> Limits {
    let spec = &quota["spec"];
    let is_scoped = spec["scopes"].as_array().is_some_and(|one| !one.is_empty())
        || spec["scopeSelector"].is_object();
    let hard = spec["hard"].as_object().into_iter().flatten();
    hard.filter(|(key, _)| !is_scoped && is_counted(key))
        .filter_map(|(key, amount)| Some((key.clone(), quantity::nanos(amount.as_str()?)?)))
        .collect()
}

fn add(total: &mut Charge, charge: &Charge) {
    for (key, amount) in charge {
        *total.entry(key.clone()).or_default() += amount;
    }
}

fn difference(mut after: Charge, before: &Charge) -> Charge {
    for (key, amount) in before {
        *after.entry(key.clone()).or_default() -= amount;
    }
    after
}
