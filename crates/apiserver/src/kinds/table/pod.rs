//! The columns of pods. STATUS is the one that people read: not the phase, but what the
//! containers say about it.

use serde_json::{Value, json};

use super::{Printer, Row, age, is_true, items, text};

pub(crate) const PRINTER: Printer = Printer {
    headers: "Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*",
    cells,
};

fn cells(row: &Row<'_>) -> Vec<Value> {
    let (spec, status) = (&row.object["spec"], &row.object["status"]);
    let summary = Summary::of(row.object);
    let total = items(&spec["containers"]).len() + summary.sidecars;
    let restarts = match summary.last_restart.filter(|_| summary.restarts > 0) {
        Some(time) => format!(
            "{} ({} ago)",
            summary.restarts,
            age::since_text(time, row.now)
        ),
        None => summary.restarts.to_string(),
    };
    let gates = items(&spec["readinessGates"]);
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        let is_met = |gate: &&Value| is_true(status, text(&gate["conditionType"], ""));
        format!("{}/{}", gates.iter().filter(is_met).count(), gates.len())
    };
    let address = items(&status["podIPs"])
        .first()
        .map_or(&status["podIP"], |one| &one["ip"]);
    vec![
        row.name(),
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.reason),
        json!(restarts),
        row.age(),
        json!(text(address, "<none>")),
        json!(text(&spec["nodeName"], "<none>")),
        json!(text(&status["nominatedNodeName"], "<none>")),
        json!(gates),
    ]
}

struct Summary<'a> {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<&'a str>,
    /// Init containers that go on running.
    sidecars: usize,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let status = &pod["status"];
        let mut summary = Self {
            reason: text(&status["reason"], text(&status["phase"], "Unknown")).to_owned(),
            ready: 0,
            restarts: 0,
            last_restart: None,
            sidecars: 0,
        };
        let is_gated = items(&status["conditions"])
            .iter()
            .any(|one| one["type"] == "PodScheduled" && one["reason"] == "SchedulingGated");
        if is_gated {
            "SchedulingGated".clone_into(&mut summary.reason);
        }
        if !summary.initialising(pod) {
            summary.running(pod);
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            summary.reason = match status["reason"].as_str() {
                Some("NodeLost") => "Unknown".to_owned(),
                _ if ["Succeeded", "Failed"].contains(&text(&status["phase"], "")) => {
                    summary.reason
                }
                _ => "Terminating".to_owned(),
            };
        }
        summary
    }

    /// What the first init container that is not done says; whether there is such.
    fn initialising(&mut self, pod: &'a Value) -> bool {
        let spec = items(&pod["spec"]["initContainers"]);
        let is_sidecar = |name: &Value| {
            spec.iter()
                .any(|one| one["name"] == *name && one["restartPolicy"] == "Always")
        };
        self.sidecars = spec
            .iter()
            .filter(|one| one["restartPolicy"] == "Always")
            .count();
        let statuses = items(&pod["status"]["initContainerStatuses"]);
        let mut restarts = 0;
        for (index, one) in statuses.iter().enumerate() {
            restarts += one["restartCount"].as_i64().unwrap_or(0);
            self.note_restart(one);
            let (ended, waiting) = (&one["state"]["terminated"], &one["state"]["waiting"]);
            if ended.is_object() && ended["exitCode"] == 0 {
                continue;
            }
            if is_sidecar(&one["name"]) && one["started"] == true {
                if one["ready"] == true {
                    self.ready += 1;
                }
                continue;
            }
            self.reason = if ended.is_object() {
                format!("Init:{}", ending(ended))
            } else {
                match text(&waiting["reason"], "") {
                    "" | "PodInitializing" => format!("Init:{index}/{}", spec.len()),
                    reason => format!("Init:{reason}"),
                }
            };
            self.restarts = restarts;
            return true;
        }
        // Of finished init containers only those that go on count.
        self.restarts = statuses
            .iter()
            .filter(|one| is_sidecar(&one["name"]))
            .map(|one| one["restartCount"].as_i64().unwrap_or(0))
            .sum();
        false
    }

    fn running(&mut self, pod: &'a Value) {
        let mut has_running = false;
        for one in items(&pod["status"]["containerStatuses"]).iter().rev() {
            self.restarts += one["restartCount"].as_i64().unwrap_or(0);
            self.note_restart(one);
            let state = &one["state"];
            let waiting = text(&state["waiting"]["reason"], "");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if state["terminated"].is_object() {
                self.reason = ending(&state["terminated"]);
            } else if one["ready"] == true && state["running"].is_object() {
                has_running = true;
                self.ready += 1;
            }
        }
        // One container is done, another one still runs.
        if self.reason == "Completed" && has_running {
            let is_ready = is_true(&pod["status"], "Ready");
            let reason = if is_ready { "Running" } else { "NotReady" };
            reason.clone_into(&mut self.reason);
        }
    }

    fn note_restart(&mut self, status: &'a Value) {
        let ended = status["lastState"]["terminated"]["finishedAt"].as_str();
        self.last_restart = self.last_restart.max(ended);
    }
}

/// The reason that a container ended, or how.
fn ending(ended: &Value) -> String {
    match text(&ended["reason"], "") {
        "" => match ended["signal"].as_i64().filter(|signal| *signal != 0) {
            Some(signal) => format!("Signal:{signal}"),
            None => format!("ExitCode:{}", ended["exitCode"].as_i64().unwrap_or(0)),
        },
        reason => reason.to_owned(),
    }
}
