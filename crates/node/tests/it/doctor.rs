//! The doctor on this very machine.

use astrago_node::doctor::{self, Level};

use crate::support::{Bench, program};

#[test]
fn a_machine_on_which_pods_run_is_found_fit() {
    let Some(bench) = Bench::new() else { return };
    let options = astrago_node::Options {
        supervisor: program().to_owned(),
        ..astrago_node::Options::new(bench.data.path())
    };
    let findings = doctor::check(&options);
    let failed: Vec<_> = findings
        .iter()
        .filter(|finding| finding.level == Level::Fail)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}
