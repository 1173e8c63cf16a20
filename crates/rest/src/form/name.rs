//! Names: who the job belongs to, what it is called, and whether its pods' names will fit.

use crate::model::Refusal;

/// A DNS label may have 63 characters, and so may the longest pod name.
const LABEL_LIMIT: usize = 63;

/// What Kubernetes appends to a generated pod name: a dash and five characters.
const POD_SUFFIX: usize = 6;

/// Makes a DNS label of a user id (`Kim.Minsu@lab` becomes `kim-minsu-lab`).
///
/// Letters, digits and the separators that occur in login names are mapped; anything else is
/// refused, because two different users must not silently become one.
pub(crate) fn user_label(user_id: &str) -> Result<String, Refusal> {
    let mut label = String::with_capacity(user_id.len());
    for character in user_id.trim().chars() {
        match character {
            'a'..='z' | '0'..='9' => label.push(character),
            'A'..='Z' => label.push(character.to_ascii_lowercase()),
            '-' | '_' | '.' | '@' | ' ' | '+' if label.ends_with('-') => {
                return Err("must not have two separators in a row".into());
            }
            '-' | '_' | '.' | '@' | ' ' | '+' => label.push('-'),
            other => {
                return Err(format!(
                    "may have Latin letters, digits and . _ - @ only, not {other:?}"
                )
                .into());
            }
        }
    }
    let label = label.trim_matches('-');
    if label.is_empty() {
        return Err("must contain a Latin letter or a digit".into());
    }
    if label.len() > LABEL_LIMIT {
        return Err(Refusal::TooLong {
            limit: LABEL_LIMIT,
            has: Some(label.len()),
        });
    }
    // TrainJob names are RFC 1035 labels: they begin with a letter.
    if label.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(format!("u{label}"));
    }
    Ok(label.to_owned())
}

/// Checks an RFC 1123 label, as namespaces and volumes have.
pub(crate) fn check_label(name: &str) -> Result<(), Refusal> {
    check(name, LABEL_LIMIT, |byte| byte == b'-')
}

/// Checks an RFC 1123 subdomain, as claims and ConfigMaps have.
pub(crate) fn check_subdomain(name: &str) -> Result<(), Refusal> {
    check(name, 253, |byte| byte == b'-' || byte == b'.')?;
    if name.contains("..") || name.contains(".-") || name.contains("-.") {
        return Err("must have a letter or digit on both sides of every dot".into());
    }
    Ok(())
}

/// Checks a text that people give a thing: on one line, and not empty.
pub(crate) fn check_text(text: &str, limit: usize) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::Empty);
    }
    if text.chars().count() > limit {
        return Err(Refusal::TooLong { limit, has: None });
    }
    if text.chars().any(char::is_control) {
        return Err("must be on one line".into());
    }
    Ok(())
}

/// Checks the name of a TrainJob, which is an RFC 1035 label.
pub(crate) fn check_job_name(name: &str) -> Result<(), Refusal> {
    check_label(name)?;
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err(Refusal::Begins);
    }
    Ok(())
}

/// Checks that the longest pod name of the job fits into a label.
///
/// `replicated_job` is the longest name among the runtime's jobs (`node`, `launcher`).
pub(crate) fn check_pod_names(name: &str, replicated_job: &str, nodes: i64) -> Result<(), Refusal> {
    let room = room_for_job_name(replicated_job, nodes);
    if name.len() <= room {
        return Ok(());
    }
    Err(Refusal::PodNames {
        value: name.to_owned(),
        has: name.len(),
        room,
    })
}

/// How long a TrainJob's name may be so that `{name}-{job}-0-{index}-{hash}` is a label.
pub(crate) fn room_for_job_name(replicated_job: &str, nodes: i64) -> usize {
    let index = (nodes - 1).max(0).to_string().len();
    LABEL_LIMIT - POD_SUFFIX - "--0-".len() - replicated_job.len().min(40) - index
}

/// `{user}-job-{timestamp}`, with `-{suffix}` when the plain name is taken. The user part gives
/// way when a suffix would make the name too long, since the suffix is our need and not theirs.
pub(crate) fn job_name(user: &str, timestamp: &str, suffix: Option<&str>, room: usize) -> String {
    let mut tail = format!("-job-{timestamp}");
    let Some(suffix) = suffix else {
        return format!("{user}{tail}");
    };
    tail.push('-');
    tail.push_str(suffix);
    let keep = room.saturating_sub(tail.len()).clamp(1, user.len());
    format!("{}{tail}", user[..keep].trim_end_matches('-'))
}

fn check(name: &str, limit: usize, separator: impl Fn(u8) -> bool) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err(Refusal::Empty);
    }
    if name.len() > limit {
        return Err(Refusal::TooLong {
            limit,
            has: Some(name.len()),
        });
    }
    if let Some(wrong) = name.chars().find(|c| {
        !(c.is_ascii_lowercase() || c.is_ascii_digit() || u8::try_from(*c).is_ok_and(&separator))
    }) {
        return Err(Refusal::Letters { value: wrong });
    }
    if name.starts_with(['-', '.']) || name.ends_with(['-', '.']) {
        return Err(Refusal::Ends);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("user123", Ok("user123"))]
    #[case("Kim.Minsu@lab", Ok("kim-minsu-lab"))]
    #[case("7even", Ok("u7even"))]
    #[case("홍길동", Err(()))]
    #[case("a/b", Err(()))]
    #[case("..", Err(()))]
    #[case("", Err(()))]
    #[case("---", Err(()))]
    fn user_ids_become_labels(#[case] user_id: &str, #[case] want: Result<&str, ()>) {
        let got = user_label(user_id);
        assert_eq!(got.as_deref().map_err(|_| ()), want);
    }

    #[rstest]
    #[case::upper_case("User")]
    #[case::slash("a/b")]
    #[case::dots("..")]
    #[case::hangul("학습")]
    #[case::dash_first("-a")]
    #[case::empty("")]
    fn wrong_labels_are_refused(#[case] name: &str) {
        assert!(check_label(name).is_err());
        assert!(check_job_name(name).is_err());
    }

    #[test]
    fn three_hundred_characters_are_too_many() {
        assert!(check_label(&"a".repeat(300)).is_err());
        assert!(user_label(&"a".repeat(300)).is_err());
    }

    #[test]
    fn forty_eight_characters_fit_ten_nodes_and_not_eleven() {
        let name = "a".repeat(48);
        assert_eq!(check_pod_names(&name, "node", 10), Ok(()));
        assert!(check_pod_names(&name, "node", 11).is_err());
        assert!(check_pod_names(&name, "launcher", 2).is_err());
    }

    #[test]
    fn a_suffix_shortens_the_user_and_never_the_time() {
        let user = "a".repeat(29);
        assert_eq!(
            job_name("kim", "20251105130000", None, 48),
            "kim-job-20251105130000"
        );
        let name = job_name(&user, "20251105130000", Some("x7k2p"), 48);
        assert_eq!(name.len(), 48);
        assert!(name.ends_with("-job-20251105130000-x7k2p"));
    }
}
