//! The one binary, `astrago`.

fn main() {}
