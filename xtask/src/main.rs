//! Generated files and house rules.

fn main() {}
