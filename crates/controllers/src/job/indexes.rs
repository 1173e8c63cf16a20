//! Sets of completion indexes in the form that a Job's status has them: `0,2-4,7`.

use std::collections::BTreeSet;

/// The set that `text` stands for, without what is not below `completions`. Parts that are not indexes are
/// left out: the text is the status of a Job, which others may write.
pub(crate) fn parse(text: &str, completions: i32) -> BTreeSet<i32> {
    let mut indexes = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<i32>(), last.trim().parse::<i32>())
        else {
            continue;
        };
        indexes.extend(first.max(0)..=last.min(completions.saturating_sub(1)));
    }
    indexes
}

/// The shortest text for a set. Two neighbours are listed, three or more become a range, as Kubernetes does it.
pub(crate) fn format(indexes: &BTreeSet<i32>) -> String {
    let mut parts: Vec<(i32, i32)> = Vec::new();
    for &index in indexes {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == index => *last = index,
            _ => parts.push((index, index)),
        }
    }
    let parts = parts.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(&[], "")]
    #[case::one(&[3], "3")]
    #[case::neighbours(&[3, 4], "3,4")]
    #[case::a_range(&[0, 1, 2], "0-2")]
    #[case::mixed(&[0, 2, 3, 4, 7, 8], "0,2-4,7,8")]
    fn sets_are_written_as_kubernetes_writes_them(#[case] indexes: &[i32], #[case] want: &str) {
        let set: BTreeSet<i32> = indexes.iter().copied().collect();
        assert_eq!(format(&set), want);
        assert_eq!(parse(want, 9), set);
    }

    #[test]
    fn what_is_no_index_of_the_job_is_left_out() {
        assert_eq!(parse("0-99999999,x,-3,5-", 3), BTreeSet::from([0, 1, 2]));
    }
}
