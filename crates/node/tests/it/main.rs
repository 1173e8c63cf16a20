//! The node on the real kernel.

mod sandbox;
mod support;
