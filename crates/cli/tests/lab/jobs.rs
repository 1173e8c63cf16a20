//! Short jobs over two nodes, each of whose ranks leaves traces beside what it prints.

use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value, json};

use crate::model::{Rank, check_rank};
use crate::server::{Rest, Server, eventually, pause};

pub(crate) const NAMESPACE: &str = "lab-jobs";
const RANKS: usize = 2;
const LINES: usize = 20;

/// Every start has an identity of its own.
const CODE: &str = r#"
import os, time
rank, start = os.environ["JOB_COMPLETION_INDEX"], os.urandom(4).hex()
def trace(word):
    place = os.open(f"/place/{os.environ['LAB_JOB']}-{rank}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(place, f"{word} {start}\n".encode())
    os.close(place)
trace("start")
for line in range(LINES):
    print(start, line, flush=True)
    time.sleep(PACE)
trace("end")
"#;

#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) name: String,
    /// Kills and suspensions, each of which may start its ranks once more.
    disturbances: Arc<Mutex<usize>>,
}

impl Job {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            disturbances: Arc::default(),
        }
    }

    pub(crate) fn disturb(&self) {
        *self.disturbances.lock().unwrap() += 1;
    }

    fn path(&self, rest: &str) -> String {
        format!("/api/trainjobs/{}{rest}namespace={NAMESPACE}", self.name)
    }

    /// Creates it; asks again until there is an answer.
    pub(crate) async fn create(
        &self,
        rest: &Rest,
        place: &str,
        milliseconds: u64,
        checkpoint: bool,
    ) -> Result<(), String> {
        let pace = format!("{milliseconds} / 1000 / {LINES}");
        let code = CODE
            .replace("LINES", &LINES.to_string())
            .replace("PACE", &pace);
        let form = json!({
            "user_id": "lab", "namespace": NAMESPACE, "name": self.name, "framework": "pytorch", "training_code": code,
            "num_nodes": RANKS, "cpu_request": "100m", "memory_limit": "256Mi", "max_restarts": 1000,
            "env_vars": [{ "name": "LAB_JOB", "value": self.name }], "checkpoint": checkpoint,
            "volumes": [{ "name": "place", "hostPath": place, "mountPath": "/place" }],
        });
        self.ask(
            rest,
            Method::POST,
            "/api/trainjob/create",
            Some(&form),
            &[200, 409],
        )
        .await
    }

    pub(crate) async fn suspend(&self, rest: &Rest, suspend: bool) -> Result<(), String> {
        let verb = if suspend { "/suspend?" } else { "/resume?" };
        // It may have ended meanwhile, or not exist yet.
        self.ask(rest, Method::POST, &self.path(verb), None, &[200, 404, 409])
            .await
    }

    pub(crate) async fn delete(&self, rest: &Rest) -> Result<(), String> {
        let path = format!("/api/trainjob/{}?namespace={NAMESPACE}", self.name);
        self.ask(rest, Method::DELETE, &path, None, &[200, 404])
            .await
    }

    async fn ask(
        &self,
        rest: &Rest,
        method: Method,
        path: &str,
        body: Option<&Value>,
        fine: &[u16],
    ) -> Result<(), String> {
        let done = eventually(path, || async {
            match rest.send(method.clone(), path, body).await {
                Some((code, _)) if fine.contains(&code) => Ok(None),
                Some((code, answer)) if code < 429 => Ok(Some(format!("{code} {answer}"))),
                answer => Err(format!("{answer:?}")),
            }
        });
        match done.await? {
            None => Ok(()),
            Some(refusal) => Err(format!("{method} {path}: {refusal}")),
        }
    }

    /// Waits for its end and checks everything that it left.
    pub(crate) async fn check(&self, rest: &Rest, server: &Server) -> Result<(), String> {
        let name = &self.name;
        let what = format!("the end of {name}");
        let state = eventually(&what, || async {
            match rest.get(&self.path("?")).await {
                Some((200, job)) => match job["state"].as_str() {
                    Some("Complete" | "Failed") => Ok(job),
                    _ => Err(job.to_string()),
                },
                answer => Err(format!("{answer:?}")),
            }
        });
        let job = state.await?;
        let disturbances = *self.disturbances.lock().unwrap();
        if job["state"] != "Complete" {
            return Err(format!("{name} with {disturbances} disturbances: {job}"));
        }
        let restarts = job["restarts"].as_u64().unwrap_or(0);
        if restarts > disturbances as u64 {
            return Err(format!(
                "{name}: {restarts} restarts, {disturbances} disturbances"
            ));
        }
        for number in 0..RANKS {
            // The log is read by a task of its own, and may come a little later.
            let what = format!("all of rank {number} of {name}");
            let found = eventually(&what, || async {
                let rank = self.rank(rest, server, number).await?;
                check_rank(&rank, disturbances, LINES)
            });
            found.await?;
        }
        Ok(())
    }

    async fn rank(&self, rest: &Rest, server: &Server, number: usize) -> Result<Rank, String> {
        let mut rank = Rank::default();
        let file = server.place.join(format!("{}-{number}", self.name));
        for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
            match line.split_once(' ') {
                Some(("start", id)) => rank.starts.push(id.to_owned()),
                Some(("end", id)) => rank.ends.push(id.to_owned()),
                _ => return Err(format!("a trace of another kind: {line}")),
            }
        }
        let answer = rest
            .get(&self.path(&format!("/logs?worker={number}&")))
            .await;
        let Some((200, answer)) = answer else {
            return Err(format!("{answer:?}"));
        };
        let lines = answer["lines"].as_array().into_iter().flatten();
        let text = |line: &Value| line["text"].as_str().unwrap_or_default().to_owned();
        rank.log = lines.map(text).collect();
        Ok(rank)
    }
}

/// Creates jobs one after the other, as the round goes on.
pub(crate) async fn create_all(
    rest: Rest,
    place: String,
    plan: Vec<(Job, u64, u64, bool)>,
) -> Result<(), String> {
    for (job, before, milliseconds, checkpoint) in plan {
        pause(before).await;
        job.create(&rest, &place, milliseconds, checkpoint).await?;
    }
    Ok(())
}
