//! Quotas per namespace.
//!
//! A ResourceQuota is not a reason to refuse a job, as it is with Kubernetes: the job waits until the
//! quota has room. So what counts as used is what has been started: pods with a node that have not
//! ended. Enforced are `pods`, `count/pods`, `cpu`, `memory`, `requests.*` and `limits.*` of pods,
//! with the scopes of Kubernetes; other keys (counts of other objects, storage) are the API server's.

use std::collections::BTreeMap;

use astrago_api::quantity::Amount;
use k8s_openapi::api::core::v1::{ResourceQuota, ScopedResourceSelectorRequirement};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::fit::{Cause, Resources};

/// What a pod counts as.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charge {
    pub requests: Resources,
    pub limits: Resources,
    pub best_effort: bool,
    pub terminating: bool,
    pub priority_class: Option<String>,
}

/// A quota and how much of it is used.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    pub namespace: String,
    pub name: String,
    pub hard: Resources,
    pub used: Resources,
    pub scopes: Vec<ScopedResourceSelectorRequirement>,
}

/// One way in which a quota can refuse an amount.
type Test = fn(&Quota, &Resources, &str, Amount) -> Option<Cause>;

impl Quota {
    /// Reads a quota, with nothing used. Amounts that cannot be read do not limit anything.
    pub fn of(quota: &ResourceQuota) -> Self {
        let spec = quota.spec.clone().unwrap_or_default();
        let mut hard = Resources::default();
        for (name, quantity) in spec.hard.into_iter().flatten() {
            if is_enforced(&name)
                && let Ok(amount) = Amount::try_from(&quantity)
            {
                hard.set(&name, amount);
            }
        }
        let plain = spec.scopes.into_iter().flatten().map(|scope| {
            let operator = "Exists".to_owned();
            ScopedResourceSelectorRequirement {
                scope_name: scope,
                operator,
                values: None,
            }
        });
        let selector = spec
            .scope_selector
            .and_then(|selector| selector.match_expressions);
        Self {
            namespace: quota.metadata.namespace.clone().unwrap_or_default(),
            name: quota.metadata.name.clone().unwrap_or_default(),
            used: hard.names().map(|name| (name, Amount::ZERO)).collect(),
            hard,
            scopes: plain.chain(selector.into_iter().flatten()).collect(),
        }
    }

    /// What a pod takes of this quota, by the quota's own keys.
    pub fn charge(&self, charge: &Charge) -> Resources {
        if !self.scopes.iter().all(|scope| in_scope(scope, charge)) {
            return Resources::default();
        }
        self.hard
            .names()
            .map(|key| (key, amount_of(key, charge)))
            .collect()
    }

    pub fn take(&mut self, charge: &Charge) {
        let charge = self.charge(charge);
        self.used.add(&charge);
    }

    pub fn give_back(&mut self, charge: &Charge) {
        let charge = self.charge(charge);
        self.used.subtract(&charge);
    }

    /// Why pods with these charges do not fit into what is left; `None` if they do.
    pub fn refusal<'a>(
        &self,
        charges: impl Iterator<Item = &'a Charge>,
        held: &Resources,
    ) -> Option<Cause> {
        let mut needed = Resources::default();
        for charge in charges {
            needed.add(&self.charge(charge));
        }
        // What is hopeless is said before what only takes time.
        let tests: [Test; 3] = [Self::exceeds, Self::lacks, Self::is_kept];
        for test in tests {
            for (key, needed) in needed.iter().filter(|(_, needed)| needed.is_positive()) {
                if let Some(cause) = test(self, held, key, *needed) {
                    return Some(cause);
                }
            }
        }
        None
    }

    fn exceeds(&self, _: &Resources, key: &str, needed: Amount) -> Option<Cause> {
        let hard = self.hard.get(key);
        let (quota, resource) = (self.name.clone(), plain_name(key).to_owned());
        (needed > hard).then_some(Cause::OverQuota {
            quota,
            resource,
            needed,
            hard,
        })
    }

    fn lacks(&self, _: &Resources, key: &str, needed: Amount) -> Option<Cause> {
        let free = (self.hard.get(key) - self.used.get(key)).at_least_zero();
        let (quota, resource) = (self.name.clone(), plain_name(key).to_owned());
        (needed > free).then_some(Cause::Quota {
            quota,
            resource,
            needed,
            free,
        })
    }

    fn is_kept(&self, held: &Resources, key: &str, needed: Amount) -> Option<Cause> {
        let free = self.hard.get(key) - self.used.get(key);
        (needed > free - held.get(key)).then_some(Cause::Kept)
    }

    /// `status.used` as it should be, in the forms in which the limits are written.
    pub fn used_status(&self) -> BTreeMap<String, Quantity> {
        let amounts = self.hard.iter().map(|(key, hard)| {
            (
                key.clone(),
                Quantity::from(self.used.get(key).in_form(hard.form())),
            )
        });
        amounts.collect()
    }
}

fn is_enforced(key: &str) -> bool {
    matches!(
        key,
        "pods" | "count/pods" | "cpu" | "memory" | "ephemeral-storage"
    ) || (key.starts_with("requests.") && key != "requests.storage")
        || key.starts_with("limits.")
}

fn amount_of(key: &str, charge: &Charge) -> Amount {
    if let Some(name) = key.strip_prefix("limits.") {
        return charge.limits.get(name);
    }
    match key {
        "pods" | "count/pods" => Amount::whole(1),
        key => charge.requests.get(plain_name(key)),
    }
}

fn plain_name(key: &str) -> &str {
    key.strip_prefix("requests.")
        .or_else(|| key.strip_prefix("limits."))
        .or_else(|| key.strip_prefix("count/"))
        .unwrap_or(key)
}

fn in_scope(scope: &ScopedResourceSelectorRequirement, charge: &Charge) -> bool {
    let values = scope.values.as_deref().unwrap_or_default();
    match scope.scope_name.as_str() {
        "Terminating" => charge.terminating,
        "NotTerminating" => !charge.terminating,
        "BestEffort" => charge.best_effort,
        "NotBestEffort" => !charge.best_effort,
        "PriorityClass" => {
            let class = charge.priority_class.as_ref();
            let listed = class.is_some_and(|class| values.contains(class));
            match scope.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => class.is_none(),
                _ => class.is_some(),
            }
        }
        _ => false,
    }
}
