//! How deep a rule may be nested, and a stack that is large enough for it.
//!
//! The interpreter and its parser recurse, and a chain such as `a.trim().trim()` is as deep as it is long. Rules of people
//! are shallow and are run where they are; deep ones get a thread of their own with a large stack, and there is an end.

use std::thread;

use cel::IdedExpr;

use super::{Error, budget, parts};

/// In bytes of text. The longest rules of known definitions have about a thousand.
const LONGEST: usize = 10_000;
const DEEPEST: usize = 200;
/// What any thread has room for, also without optimisation: the parser goes through a dozen functions per level.
pub(super) const PARSED_ANYWHERE: usize = 6;
pub(super) const RUN_ANYWHERE: usize = 24;
/// Only what is used of it costs memory.
const STACK: usize = 64 << 20;

/// Refuses a text that is too long to be a rule.
pub(super) fn check_length(source: &str) -> Result<(), Error> {
    if source.len() > LONGEST {
        return Err(Error::TooLong { limit: LONGEST });
    }
    Ok(())
}

/// Refuses a rule that is nested too deep.
pub(super) fn check(program: &IdedExpr) -> Result<(), Error> {
    if of(program) > DEEPEST {
        return Err(Error::TooDeep { limit: DEEPEST });
    }
    Ok(())
}

/// How deep a text may be nested at most.
pub(super) fn estimate(source: &str) -> usize {
    source.matches(|c: char| "([{.?+-*/%!".contains(c)).count()
}

/// Runs something, on a large stack unless it is `small`; `None` if there is no thread for it.
pub(super) fn with_room<T: Send>(small: bool, run: impl FnOnce() -> T + Send) -> Option<T> {
    if small {
        return Some(run());
    }
    let purse = budget::lend();
    let (answer, purse) = thread::scope(|scope| {
        let running = thread::Builder::new()
            .name("deep-rule".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, move || {
                budget::take(purse);
                (run(), budget::lend())
            })
            .ok()?;
        running.join().ok()
    })?;
    budget::take(purse);
    Some(answer)
}

/// How deep a parsed rule is nested.
pub(super) fn of(expr: &IdedExpr) -> usize {
    1 + parts::of(expr).into_iter().map(of).max().unwrap_or(0)
}
