//! Who owns whom: from uid to object, and from an owner's uid to its dependents.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::object::Name;
use super::shard::{Change, Event};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub resource: Arc<str>,
    pub name: Name,
}

#[derive(Debug, Default)]
pub(super) struct Relations {
    objects: HashMap<Box<str>, Reference>,
    dependents: HashMap<Box<str>, BTreeSet<Reference>>,
}

impl Relations {
    pub(super) fn object(&self, uid: &str) -> Option<Reference> {
        self.objects.get(uid).cloned()
    }

    pub(super) fn dependents(&self, uid: &str) -> Vec<Reference> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    pub(super) fn owners(&self) -> Vec<Box<str>> {
        self.dependents.keys().cloned().collect()
    }

    pub(super) fn apply(&mut self, resource: &Arc<str>, event: &Event) {
        let reference = Reference {
            resource: Arc::clone(resource),
            name: event.object.name.clone(),
        };
        if let Some(previous) = &event.previous {
            if previous.meta == event.object.meta && event.change != Change::Deleted {
                return;
            }
            self.objects.remove(&previous.meta.uid);
            for owner in &previous.meta.owners {
                if let Some(dependents) = self.dependents.get_mut(owner) {
                    dependents.remove(&reference);
                    if dependents.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
            }
        }
        if event.change == Change::Deleted {
            return;
        }
        for owner in &event.object.meta.owners {
            self.dependents
                .entry(owner.clone())
                .or_default()
                .insert(reference.clone());
        }
        self.objects
            .insert(event.object.meta.uid.clone(), reference);
    }
}
