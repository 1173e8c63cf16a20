//! What is done with an input: by the fuzz targets (`make fuzz`) with those that lead somewhere new, and by the tests of
//! the API server (`crates/apiserver/tests/it/parsers.rs`) with random ones.

pub mod documents;
pub mod json;
pub mod patches;
pub mod paths;
pub mod protobuf;
pub mod rules;
pub mod schemas;
pub mod selectors;
