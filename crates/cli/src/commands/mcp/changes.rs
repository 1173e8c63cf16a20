//! Tools that change something, each in two steps.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::PoisonError;

use anyhow::Result;
use astrago_rest::model::{CreateResponse, Deleted, Fit, JobStatus, Preview, WhoAmI};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Agent, Named};
use crate::client::escape;
use crate::commands::job::path;
use crate::commands::namespace;
use crate::commands::run::stands;
use crate::exit::Failure;

/// What was asked for and not yet confirmed; an agent has no more in mind at a time.
const MOST_ASKED: usize = 16;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// A create request of the REST API: `framework` (such as "pytorch"), `training_code` (a script) and `num_nodes`; also
    /// `name`, `namespace`, `runtime`, `nproc_per_node`, `cpu_request`, `memory_request`, `gpu_count`, `env_vars`
    /// ([{name, value}]), `arguments`, `max_restarts`, `deadline_seconds`
    request: Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Submit {
    /// As in preview_job
    request: Map<String, Value>,
    /// The word that the first call gave
    confirm: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    /// The job's name
    name: String,
    /// The job's namespace; by default the user's own
    namespace: Option<String>,
    /// The word that the first call gave
    confirm: Option<String>,
}

/// Changes that were described and may now be confirmed, each once and exactly as it was described.
#[derive(Default)]
pub(super) struct Asked {
    so_far: u64,
    open: VecDeque<(String, Value)>,
}

impl Asked {
    /// The word that confirms `change`.
    fn word(&mut self, change: Value) -> String {
        self.so_far += 1;
        let digest = Sha256::digest(format!("{} {change}", self.so_far));
        let word = hex::encode(&digest[..4]);
        if self.open.len() == MOST_ASKED {
            self.open.pop_front();
        }
        self.open.push_back((word.clone(), change));
        word
    }

    /// Takes back a word, if it confirms just this change.
    fn take(&mut self, word: &str, change: &Value) -> bool {
        let place = self
            .open
            .iter()
            .position(|(known, asked)| known == word && asked == change);
        place.and_then(|place| self.open.remove(place)).is_some()
    }
}

impl Agent {
    pub(super) async fn preview(&self, wanted: Request) -> Result<String> {
        let request = self.completed(wanted.request).await?;
        self.described(&request).await
    }

    pub(super) async fn submit(&self, wanted: Submit) -> Result<String> {
        let request = self.completed(wanted.request).await?;
        let change = json!({ "submit_job": request });
        let Some(word) = &wanted.confirm else {
            return Ok(self.ask(&self.described(&request).await?, change));
        };
        self.confirmed(word, &change)?;
        let made: CreateResponse = self
            .client
            .post("/api/trainjob/create", &[], Some(&request))
            .await?;
        Ok(format!(
            "Created {} in namespace {}.\n",
            made.trainjob_name, made.namespace
        ))
    }

    /// Suspends, resumes, restarts or deletes a job.
    pub(super) async fn change(&self, tool: &str, wanted: &Change) -> Result<String> {
        let query = self.namespace(wanted.namespace.as_deref());
        let namespace = &query[0].1;
        let change = json!({ tool: [wanted.name, namespace] });
        let named = Named {
            name: wanted.name.clone(),
            namespace: Some(namespace.clone()),
        };
        let Some(word) = &wanted.confirm else {
            let job = self.detail(&named).await?;
            let would = match tool {
                "suspend_job" => {
                    "Its pods would end; what they have not saved is lost. It can be resumed."
                }
                "resume_job" => {
                    "It would start again, from the beginning unless its code loads a checkpoint."
                }
                "restart_job" => {
                    "A new job with the same code and settings would start; this one stays as it is."
                }
                _ => "The job, its pods, its code and its log would be deleted for good.",
            };
            let text = format!("{namespace}/{}: {}\n{would}\n", wanted.name, stands(&job));
            return Ok(self.ask(&text, change));
        };
        self.confirmed(word, &change)?;
        let below = |action| path(&wanted.name, action);
        let none = None::<&Value>;
        Ok(match tool {
            "suspend_job" | "resume_job" => {
                let action = if tool == "suspend_job" {
                    "/suspend"
                } else {
                    "/resume"
                };
                let status: JobStatus = self.client.post(&below(action), &query, none).await?;
                format!("{}: {}\n", status.trainjob_name, status.message)
            }
            "restart_job" => {
                let made: CreateResponse =
                    self.client.post(&below("/restart"), &query, none).await?;
                format!(
                    "Started again as {} in namespace {}.\n",
                    made.trainjob_name, made.namespace
                )
            }
            _ => {
                let address = format!("/api/trainjob/{}", escape(&wanted.name));
                let _: Deleted = self.client.delete(&address, &query).await?;
                format!("Deleted {} in namespace {namespace}.\n", wanted.name)
            }
        })
    }

    /// A request with what `astrago run` would add: whose it is, and where it goes.
    async fn completed(&self, mut request: Map<String, Value>) -> Result<Value> {
        let me: WhoAmI = self.client.get("/api/whoami", &[]).await?;
        request
            .entry("user_id")
            .or_insert_with(|| me.user.clone().into());
        let place = request
            .entry("namespace")
            .or_insert_with(|| self.namespace.clone().into());
        if let Some(place) = place.as_str().filter(|place| *place != self.namespace) {
            namespace::must_exist(&self.client, place, &me).await?;
        }
        Ok(Value::Object(request))
    }

    async fn described(&self, request: &Value) -> Result<String> {
        let preview: Preview = self
            .client
            .post("/api/trainjob/preview", &[], Some(request))
            .await?;
        let fit: Fit = self.client.post("/api/fit", &[], Some(request)).await?;
        let mut text = format!("{}\n{} pods:\n", fit.reason, preview.pods.len());
        for pod in &preview.pods {
            let needs = &pod.needs;
            let _ = writeln!(
                text,
                "  {} {}: cpu {}, memory {} bytes, gpu {} (0: no limit)",
                pod.role, pod.rank, needs.cpu, needs.memory, needs.gpu
            );
        }
        let _ = write!(text, "\n{}", preview.yaml);
        Ok(text)
    }

    fn ask(&self, text: &str, change: Value) -> String {
        let word = self
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .word(change);
        format!(
            "Nothing has been done yet. To do it, repeat the call with confirm={word:?}.\n\n{text}"
        )
    }

    fn confirmed(&self, word: &str, change: &Value) -> Result<()> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.take(word, change) {
            return Ok(());
        }
        Err(Failure::theirs(format!("{word:?} does not confirm this"))
            .hint("call without `confirm` first; a word is good once, and for the same arguments only")
            .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_good_once_and_for_what_it_was_given_for() {
        let mut asked = Asked::default();
        let (one, other) = (
            json!({ "delete_job": ["a", "x"] }),
            json!({ "delete_job": ["b", "x"] }),
        );
        let word = asked.word(one.clone());
        assert!(!asked.take(&word, &other));
        assert!(asked.take(&word, &one));
        assert!(!asked.take(&word, &one));
        let first = asked.word(one.clone());
        assert_ne!(first, word);
        for _ in 0..MOST_ASKED {
            asked.word(other.clone());
        }
        assert!(
            !asked.take(&first, &one),
            "what was never confirmed is forgotten"
        );
    }
}
