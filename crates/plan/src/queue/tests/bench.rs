//! What a pass costs with a thousand gangs. The bounds are generous: they are there to notice
//! when the cost begins to grow with the square of the queue.

use std::time::{Duration, Instant};

use super::*;

fn queue(gangs: usize) -> Vec<Gang> {
    (0..gangs)
        .map(|index| gang(&format!("{index:05}"), 1, 2, "cpu=1 gpu=1"))
        .collect()
}

#[test]
fn a_thousand_gangs_are_started_or_explained_in_one_quick_pass() {
    let nodes = vec!["cpu=64 gpu=8"; 50];
    let start = Instant::now();
    let decision = decide(world(&nodes, queue(1000), vec![]));
    let elapsed = start.elapsed();
    assert_eq!((decision.bind.len(), decision.wait.len()), (200, 800));
    println!("1,000 gangs of 2 pods on 50 nodes: 200 started, 800 explained in {elapsed:?}");
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}
