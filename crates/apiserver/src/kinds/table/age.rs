//! Durations for humans: two digits or so of what matters.

use jiff::Timestamp;

/// The age of something that happened at `time`; `<unknown>` if that is no time.
pub(super) fn since_text(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// `5s`, `3m20s`, `45m`, `5h12m`, `2d3h`, `14d`, `2y30d`, `9y`.
pub(super) fn human(seconds: i64) -> String {
    // A clock that is a little ahead is no reason to alarm anybody.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |whole: i64, unit: &str, rest: i64, rest_unit: &str| match rest {
        0 => format!("{whole}{unit}"),
        _ => format!("{whole}{unit}{rest}{rest_unit}"),
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, "m", seconds % 60, "s")
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, "h", minutes % 60, "m")
    } else if hours < 48 {
        format!("{hours}h")
    } else if hours < 192 {
        two(days, "d", hours % 24, "h")
    } else if days < 730 {
        format!("{days}d")
    } else if days < 2920 {
        two(days / 365, "y", days % 365, "d")
    } else {
        format!("{}y", days / 365)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::human;

    #[rstest]
    #[case(-5, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(200, "3m20s")]
    #[case(600, "10m")]
    #[case(10_799, "179m")]
    #[case(10_800, "3h")]
    #[case(18_720, "5h12m")]
    #[case(28_800, "8h")]
    #[case(172_799, "47h")]
    #[case(172_800, "2d")]
    #[case(183_600, "2d3h")]
    #[case(691_200, "8d")]
    #[case(63_072_000, "2y")]
    #[case(65_664_000, "2y30d")]
    #[case(283_824_000, "9y")]
    fn reads_well(#[case] seconds: i64, #[case] want: &str) {
        assert_eq!(human(seconds), want);
    }
}
