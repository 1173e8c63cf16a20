//! Everything that reads what users write, on random input. `make fuzz` does the same with a fuzzer behind it.

#[path = "../../../../fuzz/src/lib.rs"]
#[allow(
    clippy::pedantic,
    unreachable_pub,
    reason = "it is formatted and checked as a package of its own"
)]
mod bodies;

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

/// As many as keep a processor busy for about a minute, all parsers together.
const INPUTS: u64 = 30_000;

fn on_random_input(run: fn(&[u8])) {
    for seed in 0..INPUTS {
        let mut random = StdRng::seed_from_u64(seed);
        let length = random.random_range(0..2048);
        let mut input = vec![0; length];
        random.fill_bytes(&mut input);
        let result = std::panic::catch_unwind(|| run(&input));
        assert!(result.is_ok(), "the input with seed {seed}");
    }
}

/// Random bytes are hardly ever text, so this is text of what means something to most parsers.
fn on_random_text(run: fn(&[u8])) {
    const LETTERS: &[u8] = b"aA0/.,;:=!()[]{}%25\"'\\ -_~*&?<>\n\t\xc3\xa9\xf0\x9f\x98\x80\x00";
    for seed in 0..INPUTS {
        let mut random = StdRng::seed_from_u64(seed);
        let length = random.random_range(0..200);
        let letters = (0..length).map(|_| LETTERS[random.random_range(0..LETTERS.len())]);
        let input: Vec<u8> = letters.collect();
        let result = std::panic::catch_unwind(|| run(&input));
        assert!(result.is_ok(), "the text with seed {seed}");
    }
}

#[test]
fn any_object_can_be_patched_with_anything() {
    on_random_input(bodies::patches::run);
}

#[test]
fn any_document_is_read_or_refused() {
    on_random_input(bodies::documents::run);
    on_random_text(bodies::documents::run);
}

#[test]
fn any_path_is_read_or_refused() {
    on_random_input(bodies::paths::run);
    on_random_text(bodies::paths::run);
}

#[test]
fn any_protobuf_is_read_or_refused() {
    on_random_input(bodies::protobuf::run);
}

#[test]
fn any_rule_compiles_or_is_refused_and_ends() {
    on_random_input(bodies::rules::run);
}

#[test]
fn any_schema_compiles_or_is_refused_and_then_serves_any_object() {
    on_random_input(bodies::schemas::run);
}

#[test]
fn any_text_is_a_selector_or_is_refused() {
    on_random_input(bodies::selectors::run);
    on_random_text(bodies::selectors::run);
}
