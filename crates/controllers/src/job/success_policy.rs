//! `successPolicy`: an Indexed Job that has succeeded before all of its indexes have.

use super::indexes;
use super::tally::Tally;
use super::validate::ValidatedJob;

/// What the first rule that is met says, if one is.
pub(crate) fn met(job: &ValidatedJob, tally: &Tally) -> Option<String> {
    let policy = job.object.spec.as_ref()?.success_policy.as_ref()?;
    let completions = job.completions.filter(|_| job.indexed)?;
    policy.rules.iter().enumerate().find_map(|(number, rule)| {
        let counted = match &rule.succeeded_indexes {
            Some(wanted) => {
                let wanted = indexes::parse(wanted, completions);
                let done = wanted.intersection(&tally.completed).count();
                (done, wanted.len())
            }
            None => (tally.completed.len(), usize::MAX),
        };
        let (done, all) = counted;
        let enough = rule
            .succeeded_count
            .map_or(all, |count| usize::try_from(count).unwrap_or(0));
        (done >= enough).then(|| format!("Matched rules at index {number}"))
    })
}
