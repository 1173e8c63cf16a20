//! The kinds that are there without a CustomResourceDefinition.

mod kinds;

pub use kinds::{KindInfo, Subresource, find, kinds};
