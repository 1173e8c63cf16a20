//! The algebra of Kubernetes objects: JSON patch, merge patch, strategic merge and server-side apply; and quantities. Pure.
//!
//! ```text
//!   json       RFC 6902           a list of operations
//!   merge      RFC 7386           lists are replaced whole
//!   strategic  Kubernetes' own    lists merge by key; what merges how stands in `keys`
//!   apply      server-side apply  like strategic, but who owns which field decides; `fields` is
//!                                 the set algebra, `managed` reads and writes managedFields
//!   bounds     size and depth     what no object may exceed, whichever way it came to be
//!   quantity   `500m`, `1.5Gi`    exact amounts and their canonical form
//! ```
//!
//! Everything works on [`serde_json::Value`], without I/O, clock or async: the API server, the
//! planner of training jobs and the tests call the same functions.

pub mod apply;
pub mod bounds;
pub mod fields;
pub mod json;
pub mod keys;
pub mod merge;
pub mod quantity;
pub mod strategic;

pub use keys::Keys;
