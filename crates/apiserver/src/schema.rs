//! Structural schemas of custom resources.

mod error;

pub use error::{FieldError, Reason, summary};
