//! A JobSet in the making: the template as the stages so far have left it, and, when asked for,
//! where its fields came from.

use std::collections::BTreeMap;

use astrago_api::JobSetSpec;
use astrago_patch::keys::Keys;
use serde_json::Value;

use crate::provenance::{Origin, Origins};

#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    spec: JobSetSpec,
    journal: Option<Journal>,
}

/// The specification after the last stage, as JSON, and the origins of its fields.
#[derive(Debug, Default)]
struct Journal {
    last: Value,
    origins: Origins,
}

impl Draft {
    pub(crate) fn new(explain: bool) -> Self {
        Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            spec: JobSetSpec::default(),
            journal: explain.then(Journal::default),
        }
    }

    pub(crate) fn spec(&self) -> &JobSetSpec {
        &self.spec
    }

    /// One stage: what `change` does to the specification came from `origin`.
    pub(crate) fn stage(&mut self, origin: &Origin, change: impl FnOnce(&mut JobSetSpec)) {
        change(&mut self.spec);
        if let Some(journal) = &mut self.journal {
            let now = serde_json::to_value(&self.spec).unwrap_or_default();
            journal.origins =
                journal
                    .origins
                    .trace(&journal.last, &now, Keys::job_set_spec(), origin);
            journal.last = now;
        }
    }

    pub(crate) fn finish(self) -> (JobSetSpec, Origins) {
        (self.spec, self.journal.unwrap_or_default().origins)
    }
}
