//! House rules that the compiler does not know: which crate may use which, how long a file may get,
//! no sleeping in tests, no documents that are mentioned but missing.

mod crates;
mod files;

use std::path::Path;

use anyhow::{Result, bail};

use crate::report;

/// Fails if a rule is broken, after naming every breach.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut breaches = Vec::new();
    crates::check(root, &mut breaches)?;
    files::check(root, &mut breaches)?;
    for breach in &breaches {
        report(breach);
    }
    if !breaches.is_empty() {
        bail!("{} house rules are broken", breaches.len());
    }
    Ok(())
}
