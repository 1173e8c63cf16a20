//! One kind's objects, by name and by the job they belong to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt};

/// Namespace and name; the namespace is empty for what belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn of<K: Resource>(object: &K) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }
}

/// A table of objects with an index by job.
pub(crate) struct Table<K> {
    objects: BTreeMap<Key, Arc<K>>,
    by_job: BTreeMap<Key, BTreeSet<Key>>,
    job_of: fn(&K) -> Option<Key>,
    /// While a watch lists everything anew: what has been seen of it so far.
    seen: Option<BTreeSet<Key>>,
}

impl<K: Resource> Table<K> {
    pub(crate) fn new(job_of: fn(&K) -> Option<Key>) -> Self {
        Self {
            objects: BTreeMap::new(),
            by_job: BTreeMap::new(),
            job_of,
            seen: None,
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<K>)> {
        self.objects.iter()
    }

    /// The objects of one namespace, in the order of their names.
    pub(crate) fn in_namespace<'table>(
        &'table self,
        namespace: &'table str,
    ) -> impl Iterator<Item = (&'table Key, &'table Arc<K>)> {
        self.objects
            .range(Key::new(namespace, "")..)
            .take_while(move |(key, _)| key.namespace == namespace)
    }

    /// The objects that belong to a job.
    pub(crate) fn of_job(&self, job: &Key) -> Vec<Arc<K>> {
        let keys = self.by_job.get(job).into_iter().flatten();
        keys.filter_map(|key| self.objects.get(key).cloned())
            .collect()
    }

    /// Adds or replaces an object; tells whose job it is.
    pub(crate) fn insert(&mut self, mut object: K) -> Option<Key> {
        // Nobody here reads them, and they are half of every object.
        object.managed_fields_mut().clear();
        let key = Key::of(&object);
        let job = (self.job_of)(&object);
        if let Some(job) = &job {
            self.by_job
                .entry(job.clone())
                .or_default()
                .insert(key.clone());
        }
        if let Some(seen) = &mut self.seen {
            seen.insert(key.clone());
        }
        self.objects.insert(key, Arc::new(object));
        job
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Key> {
        let object = self.objects.remove(key)?;
        let job = (self.job_of)(&object)?;
        if let Some(keys) = self.by_job.get_mut(&job) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_job.remove(&job);
            }
        }
        Some(job)
    }

    /// A list of everything begins; what it does not mention is gone when it ends.
    pub(super) fn begin(&mut self) {
        self.seen = Some(BTreeSet::new());
    }

    /// The list has ended; returns the jobs of what is gone.
    pub(super) fn finish(&mut self) -> Vec<Key> {
        let Some(seen) = self.seen.take() else {
            return Vec::new();
        };
        let gone: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| !seen.contains(*key))
            .cloned()
            .collect();
        gone.iter().filter_map(|key| self.remove(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ObjectMeta;

    use super::*;

    fn object(name: &str, job: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some("team".to_owned()),
                labels: Some([("job".to_owned(), job.to_owned())].into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn table() -> Table<ConfigMap> {
        Table::new(|object| Some(Key::new("team", object.labels().get("job")?)))
    }

    #[test]
    fn objects_are_found_by_their_job_until_they_are_removed() {
        let mut table = table();
        table.insert(object("a", "demo"));
        table.insert(object("b", "demo"));
        let job = Key::new("team", "demo");
        assert_eq!(table.of_job(&job).len(), 2);
        assert_eq!(table.remove(&Key::new("team", "a")), Some(job.clone()));
        assert_eq!(table.of_job(&job).len(), 1);
        table.remove(&Key::new("team", "b"));
        assert!(table.by_job.is_empty());
    }

    #[test]
    fn a_new_list_removes_what_it_does_not_mention() {
        let mut table = table();
        table.insert(object("old", "one"));
        table.insert(object("kept", "two"));
        table.begin();
        table.insert(object("kept", "two"));
        assert_eq!(table.finish(), [Key::new("team", "one")]);
        assert_eq!(table.len(), 1);
    }
}
