//! The kinds and what an object of each may look like: schemas, rules, defaults and columns. No I/O but what the functions
//! named by the table of strategies do, which live in `admission`, `auth` and `verbs`.

pub(crate) mod builtin;
pub(crate) mod cel;
pub(crate) mod conversion;
pub(crate) mod discovery;
pub(crate) mod metadata;
pub(crate) mod openapi;
pub(crate) mod registry;
pub(crate) mod schema;
pub(crate) mod selector;
pub(crate) mod strategy;
pub(crate) mod table;
