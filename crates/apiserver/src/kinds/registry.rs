//! The kinds that are served: the built-in table plus every established CustomResourceDefinition.
//!
//! The table is immutable and swapped as a whole when a definition changes, so a request sees one
//! consistent set of kinds and looks its own up without waiting for anybody.

pub(crate) mod crd;
pub(crate) mod kind;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) use kind::{Kind, Subresource};

use crate::kinds::builtin;
use crate::store::{Name, Object, Query, Store};

/// The resource under which definitions are stored.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The kinds of this server. Shared; reading is a pointer copy.
#[derive(Debug)]
pub(crate) struct Registry {
    table: RwLock<Arc<Table>>,
}

/// Group, version and plural.
type Place = (Arc<str>, Arc<str>, Arc<str>);

/// One consistent set of kinds.
#[derive(Debug, Default)]
pub(crate) struct Table {
    kinds: Vec<Arc<Kind>>,
    by_plural: HashMap<Place, Arc<Kind>>,
    /// The kinds of each definition, and its revision.
    by_definition: HashMap<Name, (u64, Vec<Arc<Kind>>)>,
    /// Grows with each change; documents made from the table are cached under it.
    pub generation: u64,
}

impl Registry {
    /// The built-in kinds and those of `definitions`.
    pub(crate) fn new(definitions: &[Arc<Object>]) -> Self {
        let registry = Self {
            table: RwLock::default(),
        };
        registry.replace(definitions);
        registry
    }

    /// Follows a committed event. Runs on the writer's thread.
    pub(crate) fn observe(&self, store: &Store, resource: &str) {
        if resource == DEFINITIONS {
            self.replace(&definitions(store));
        }
    }

    /// Serves from now on the built-in kinds and those of `definitions`. Kinds of definitions that
    /// have not changed are kept, with all that was compiled for them.
    fn replace(&self, definitions: &[Arc<Object>]) {
        let old = self.table();
        let mut table = Table {
            generation: old.generation + 1,
            ..Table::default()
        };
        if old.kinds.is_empty() {
            table
                .kinds
                .extend(builtin::kinds().iter().map(Kind::builtin).map(Arc::new));
        } else {
            table.kinds.extend(
                old.kinds
                    .iter()
                    .filter(|kind| kind.builtin.is_some())
                    .cloned(),
            );
        }
        for definition in definitions {
            let kinds = match old.by_definition.get(&definition.name) {
                Some((revision, kinds)) if *revision == definition.revision => kinds.clone(),
                _ => crd::kinds(definition).into_iter().map(Arc::new).collect(),
            };
            table.kinds.extend(kinds.iter().cloned());
            table
                .by_definition
                .insert(definition.name.clone(), (definition.revision, kinds));
        }
        for kind in &table.kinds {
            let path = (
                Arc::clone(&kind.group),
                Arc::clone(&kind.version),
                Arc::clone(&kind.plural),
            );
            table.by_plural.insert(path, Arc::clone(kind));
        }
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The kind served at this place.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Kind>> {
        let path = (group.into(), version.into(), plural.into());
        self.table().by_plural.get(&path).cloned()
    }
}

impl Table {
    pub(crate) fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// The kinds of one group and version.
    pub(crate) fn of<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Kind>> {
        self.kinds
            .iter()
            .filter(move |kind| &*kind.group == group && &*kind.version == version)
    }

    /// Any version of the kind that is stored under `resource`.
    pub(crate) fn by_resource(&self, resource: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| *kind.resource == *resource)
    }
}

/// All stored definitions.
pub(crate) fn definitions(store: &Store) -> Vec<Arc<Object>> {
    store
        .list(DEFINITIONS, &Query::default())
        .map(|page| page.objects)
        .unwrap_or_default()
}
