//! `metadata.managedFields`: the managers of an object and what each owns.

use serde_json::{Map, Value, json};

use super::{Conflict, Manager};
use crate::fields::{Changes, Set};

/// Beyond this many managers that update, the oldest are seen as one.
const MAX_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The managers of one object.
#[derive(Debug, Default)]
pub(super) struct Managers {
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(super) struct Entry {
    name: String,
    operation: Operation,
    pub(super) api_version: String,
    subresource: String,
    time: Option<String>,
    pub(super) set: Set,
}

impl Managers {
    pub(super) fn of(object: &Value) -> Self {
        let entries = object
            .pointer("/metadata/managedFields")
            .and_then(Value::as_array);
        Self {
            entries: entries
                .into_iter()
                .flatten()
                .filter_map(Entry::read)
                .collect(),
        }
    }

    /// Applying, a manager is the same in all versions of the API; updating, it is not.
    pub(super) fn find(&self, manager: &Manager<'_>, operation: Operation) -> Option<usize> {
        self.entries.iter().position(|entry| {
            entry.name == manager.name
                && entry.operation == operation
                && entry.subresource == manager.subresource
                && (operation == Operation::Apply || entry.api_version == manager.api_version)
        })
    }

    /// The written fields that belong to others.
    pub(super) fn conflicts(&self, written: &Set, me: Option<usize>) -> Vec<Conflict> {
        let others = self
            .entries
            .iter()
            .enumerate()
            .filter(|(index, _)| Some(*index) != me);
        let mut conflicts: Vec<_> = others
            .flat_map(|(_, entry)| {
                let shown = entry.shown();
                let paths = entry.set.intersection(written).paths();
                paths.into_iter().map(move |path| Conflict {
                    manager: shown.clone(),
                    path,
                })
            })
            .collect();
        conflicts.sort_by(|left, right| left.manager.cmp(&right.manager));
        conflicts
    }

    /// All but `me` lose what was written or removed.
    pub(super) fn yield_to(&mut self, changes: &Changes, me: Option<usize>) {
        for (index, entry) in self.entries.iter_mut().enumerate() {
            if Some(index) != me {
                entry.set.subtract(&changes.written);
                entry.set.subtract(&changes.removed);
            }
        }
    }

    pub(super) fn set(&mut self, manager: &Manager<'_>, operation: Operation, set: Set) {
        let entry = Entry {
            name: manager.name.to_owned(),
            operation,
            api_version: manager.api_version.to_owned(),
            subresource: manager.subresource.to_owned(),
            time: Some(manager.now.to_owned()),
            set,
        };
        match self.find(manager, operation) {
            Some(index) => self.entries[index] = entry,
            None => self.entries.push(entry),
        }
    }

    /// Joins the oldest updaters when there are too many.
    pub(super) fn cap(&mut self, now: &str) {
        let is_updater = |entry: &Entry| entry.operation == Operation::Update;
        let count = self
            .entries
            .iter()
            .filter(|entry| is_updater(entry))
            .count();
        if count <= MAX_UPDATERS {
            return;
        }
        self.entries
            .sort_by(|left, right| left.time.cmp(&right.time));
        let mut excess = count - MAX_UPDATERS + 1;
        let mut ancient: Option<Entry> = None;
        let mut kept = Vec::with_capacity(self.entries.len());
        for entry in self.entries.drain(..) {
            if !is_updater(&entry) || excess == 0 {
                kept.push(entry);
                continue;
            }
            excess -= 1;
            match &mut ancient {
                Some(ancient) => {
                    ancient.set.union(&entry.set);
                    ancient.time = entry.time;
                }
                None => {
                    ancient = Some(Entry {
                        name: ANCIENT.to_owned(),
                        subresource: String::new(),
                        time: Some(entry.time.unwrap_or_else(|| now.to_owned())),
                        ..entry
                    });
                }
            }
        }
        kept.extend(ancient);
        self.entries = kept;
    }

    /// Puts the entries into the object: appliers first, then by time and name.
    pub(super) fn write(mut self, object: &mut Value) {
        self.entries.retain(|entry| !entry.set.is_empty());
        self.entries.sort_by(|left, right| {
            (left.operation, &left.time, &left.name, &left.subresource).cmp(&(
                right.operation,
                &right.time,
                &right.name,
                &right.subresource,
            ))
        });
        let Value::Object(object) = object else {
            return;
        };
        let metadata = object
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new()));
        let Value::Object(metadata) = metadata else {
            return;
        };
        if self.entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            let entries = self.entries.iter().map(Entry::to_value).collect();
            metadata.insert("managedFields".to_owned(), entries);
        }
    }
}

impl Entry {
    fn read(entry: &Value) -> Option<Self> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        Some(Self {
            name: text("manager")?.to_owned(),
            operation: match text("operation")? {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            },
            api_version: text("apiVersion").unwrap_or_default().to_owned(),
            subresource: text("subresource").unwrap_or_default().to_owned(),
            time: text("time").map(str::to_owned),
            set: entry
                .get("fieldsV1")
                .map(Set::from_fields)
                .unwrap_or_default(),
        })
    }

    fn to_value(&self) -> Value {
        let mut entry = json!({
            "manager": self.name,
            "operation": self.operation.as_str(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.set.to_fields(),
        });
        if let Some(time) = &self.time {
            entry["time"] = json!(time);
        }
        if !self.subresource.is_empty() {
            entry["subresource"] = json!(self.subresource);
        }
        entry
    }

    fn shown(&self) -> String {
        let name = &self.name;
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!(" with subresource {subresource:?}"),
        };
        match self.operation {
            Operation::Apply => format!("{name:?}{subresource}"),
            Operation::Update => format!("{name:?}{subresource} using {}", self.api_version),
        }
    }
}
