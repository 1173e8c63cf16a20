//! What people write to a job: a note, and tags to find it by.

use astrago_api::TrainJob;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{Error, Result, jobs};
use crate::context::Context;
use crate::identity::Caller;
use crate::model::{Notes, Refusal};
use crate::names;
use crate::world::Key;

const NOTE: usize = 4_000;
const TAG: usize = 40;

/// Replaces both, as the caller.
pub(crate) async fn set(
    context: &Context,
    caller: &Caller,
    key: &Key,
    notes: &Notes,
) -> Result<Notes> {
    let notes = checked(notes)?;
    let job = jobs::find(context, caller, key).await?;
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let annotations = json!({
        names::NOTE: text(notes.note.clone()),
        names::TAGS: text(notes.tags.join(",")),
    });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let client = context.gate.client(caller);
    let parameters = PatchParams::default();
    let wrong = |error| Error::cluster("write to the job", error);
    if let Some(legacy) = &job.legacy {
        let jobs = legacy.kind.api(client, &key.namespace);
        jobs.patch(&key.name, &parameters, &patch)
            .await
            .map_err(wrong)?;
    } else {
        let jobs: Api<TrainJob> = Api::namespaced(client, &key.namespace);
        let written = jobs.patch(&key.name, &parameters, &patch).await;
        context
            .world
            .mirrors
            .train_jobs
            .observe(written.map_err(wrong)?);
    }
    Ok(notes)
}

fn checked(notes: &Notes) -> Result<Notes> {
    let note = notes.note.trim().to_owned();
    let mut tags: Vec<String> = notes.tags.iter().map(|tag| tag.trim().to_owned()).collect();
    tags.retain(|tag| !tag.is_empty());
    tags.sort();
    tags.dedup();
    let long = |text: &str, limit: usize| text.chars().count() > limit;
    if long(&note, NOTE) {
        let refusal = Refusal::TooLong {
            limit: NOTE,
            has: None,
        };
        return Err(Error::invalid("note", refusal));
    }
    if tags.len() > names::MOST_TAGS {
        return Err(Error::invalid(
            "tags",
            Refusal::TooMany {
                limit: names::MOST_TAGS,
            },
        ));
    }
    for tag in &tags {
        if long(tag, TAG) {
            let refusal = Refusal::TooLong {
                limit: TAG,
                has: None,
            };
            return Err(Error::invalid("tags", refusal));
        }
        if tag.contains(|c: char| c == ',' || c.is_control()) {
            return Err(Error::invalid("tags", "a tag must not have a comma in it"));
        }
    }
    Ok(Notes { note, tags })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn notes(note: &str, tags: &[&str]) -> Notes {
        Notes {
            note: note.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        }
    }

    #[test]
    fn what_is_written_is_trimmed_sorted_and_never_doubled() {
        let got = checked(&notes(" better \n", &["b ", "a", "", "b"])).unwrap();
        assert_eq!(got, notes("better", &["a", "b"]));
    }

    #[rstest]
    #[case::long_note(notes(&"x".repeat(NOTE + 1), &[]))]
    #[case::long_tag(notes("", &[&"x".repeat(TAG + 1)]))]
    #[case::comma(notes("", &["a,b"]))]
    #[case::too_many(notes("", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t", "u"]))]
    fn what_cannot_be_kept_is_refused(#[case] notes: Notes) {
        assert!(checked(&notes).is_err());
    }
}
