//! How long a Job waits before it replaces a failed pod: ten seconds after the first failure, twice as long
//! after each further one, ten minutes at most. A success in between resets the count.

use jiff::Timestamp;

use crate::clock::after;

const FIRST_DELAY: i64 = 10;
const LONGEST_DELAY: i64 = 600;

/// The moment from which a new pod may be created; `None` if at once. `failures` and `successes` are the moments
/// at which pods ended.
pub(crate) fn not_before(failures: &[Timestamp], successes: &[Timestamp]) -> Option<Timestamp> {
    let last_success = successes.iter().max();
    let recent = failures
        .iter()
        .filter(|moment| last_success.is_none_or(|success| *moment > success));
    let count = recent.clone().count();
    let last = recent.max()?;
    let doublings = u32::try_from(count.saturating_sub(1))
        .unwrap_or(u32::MAX)
        .min(10);
    Some(after(*last, (FIRST_DELAY << doublings).min(LONGEST_DELAY)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn moments(seconds: &[i64]) -> Vec<Timestamp> {
        seconds
            .iter()
            .map(|second| Timestamp::from_second(*second).expect("a moment"))
            .collect()
    }

    #[rstest]
    #[case::no_failure(&[], &[], None)]
    #[case::first(&[100], &[], Some(110))]
    #[case::second(&[100, 120], &[], Some(140))]
    #[case::third(&[100, 120, 150], &[], Some(190))]
    #[case::in_any_order(&[150, 100, 120], &[], Some(190))]
    #[case::a_success_in_between(&[100, 120, 150], &[130], Some(160))]
    #[case::a_success_at_the_end(&[100, 120], &[130], None)]
    #[case::the_longest(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &[], Some(612))]
    fn the_delay_doubles(
        #[case] failures: &[i64],
        #[case] successes: &[i64],
        #[case] want: Option<i64>,
    ) {
        let got = not_before(&moments(failures), &moments(successes));
        assert_eq!(got.map(Timestamp::as_second), want);
    }
}
