//! Sets of fields: what a manager of an object owns.
//!
//! A set is kept in the shape that `FieldsV1` has on the wire: a tree whose edges are path
//! elements (`f:name` a field, `k:{…}` a list item by its keys, `v:…` a value of a set) and whose
//! nodes say whether the path that ends there is a member. So reading and writing it is cheap,
//! and the set operations are walks over two trees.

mod compare;
mod extract;
mod path;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

pub use compare::{Changes, compare};
pub use extract::{MissingKey, of};
pub(crate) use path::{Element, canonical, item_element, shown};

/// A set of paths. The default is the empty set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Whether the path that ends at this node is in the set.
    pub(crate) is_member: bool,
    pub(crate) children: BTreeMap<String, Self>,
}

impl Set {
    /// A set with nothing but the path that ends here.
    pub(crate) fn leaf() -> Self {
        Self {
            is_member: true,
            children: BTreeMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }

    /// Reads a `FieldsV1`. What is not an object there counts as a leaf.
    pub fn from_fields(fields: &Value) -> Self {
        let mut set = node(fields);
        // The object itself is no field.
        set.is_member = false;
        set
    }

    /// The `FieldsV1` of this set.
    pub fn to_fields(&self) -> Value {
        let mut map = Map::new();
        if self.is_member && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            map.insert(element.clone(), child.to_fields());
        }
        Value::Object(map)
    }

    /// Adds all paths of the other set.
    pub fn union(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (element, theirs) in &other.children {
            match self.children.get_mut(element) {
                Some(ours) => ours.union(theirs),
                None => {
                    self.children.insert(element.clone(), theirs.clone());
                }
            }
        }
    }

    /// Takes away all paths of the other set.
    pub fn subtract(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        for (element, theirs) in &other.children {
            if let Some(ours) = self.children.get_mut(element) {
                ours.subtract(theirs);
                if ours.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    /// The paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut set = Self {
            is_member: self.is_member && other.is_member,
            children: BTreeMap::new(),
        };
        for (element, ours) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                let both = ours.intersection(theirs);
                if !both.is_empty() {
                    set.children.insert(element.clone(), both);
                }
            }
        }
        set
    }

    /// All paths as Kubernetes writes them in messages: `.spec.containers[name="a"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut String, paths: &mut Vec<String>) {
        if self.is_member {
            paths.push(prefix.clone());
        }
        for (element, child) in &self.children {
            let length = prefix.len();
            prefix.push_str(&shown(element));
            child.collect(prefix, paths);
            prefix.truncate(length);
        }
    }
}

fn node(fields: &Value) -> Set {
    let Value::Object(map) = fields else {
        return Set::leaf();
    };
    let children: BTreeMap<_, _> = map
        .iter()
        .filter(|(element, _)| *element != ".")
        .map(|(element, below)| (element.clone(), node(below)))
        .collect();
    Set {
        is_member: children.is_empty() || map.contains_key("."),
        children,
    }
}
