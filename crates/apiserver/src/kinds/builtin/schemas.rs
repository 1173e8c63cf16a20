//! The schemas of the built-in kinds, from the types of k8s-openapi.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use schemars::SchemaGenerator;
use serde_json::{Map, Value};

use super::KindInfo;
use crate::kinds::schema::{Definitions, Structural};

/// The compiled schema of a kind; made when first asked for.
pub(super) fn structural(info: &KindInfo) -> Structural {
    static COMPILED: LazyLock<RwLock<HashMap<(&str, &str), Structural>>> =
        LazyLock::new(RwLock::default);
    static SHARED: LazyLock<RwLock<Definitions>> = LazyLock::new(RwLock::default);

    let key = (info.group, info.kind);
    let compiled = COMPILED.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = compiled.get(&key) {
        return found.clone();
    }
    drop(compiled);
    let (schema, definitions) = raw(info);
    let mut shared = SHARED.write().unwrap_or_else(PoisonError::into_inner);
    shared.raw = definitions;
    let made = Structural::from_definitions(&schema, &mut shared);
    shared.raw = Map::new();
    let mut compiled = COMPILED.write().unwrap_or_else(PoisonError::into_inner);
    compiled.insert(key, made.clone());
    made
}

/// The JSON schema of a kind and the definitions that it refers to, descriptions included.
pub(crate) fn raw(info: &KindInfo) -> (Value, Map<String, Value>) {
    let mut generator = SchemaGenerator::default();
    let schema = (info.schema)(&mut generator).to_value();
    (schema, generator.take_definitions(false))
}
