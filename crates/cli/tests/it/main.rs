//! The built binary, from the outside.

mod command_line;
mod harness;
mod training;
