//! Plans of whole jobs: the examples of the repository, tables of cases, and laws.

mod cases;
mod examples;
mod laws;
mod objects;
