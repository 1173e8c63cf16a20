//! The supervisor alone, for the tests of this crate; the product's is `astrago supervise`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The first word after the program's name is `supervise`, as with `astrago`.
    astrago_node::supervise(std::env::args_os().skip(2))
}
