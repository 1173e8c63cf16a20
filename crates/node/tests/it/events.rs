//! What a pod's events tell of its containers.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::plane::Plane;
use crate::support::{self, PATIENCE};

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_waits_for_its_next_restart_has_an_event_that_says_so() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let always = json!({"spec": {"restartPolicy": "Always"}});
    plane.pod("loop", "exit 1", always).await;
    let waits = |pod: &Pod| {
        let statuses = pod.status.iter().flat_map(|it| &it.container_statuses);
        let mut waiting = statuses
            .flatten()
            .filter_map(|it| it.state.as_ref()?.waiting.as_ref());
        waiting.any(|it| it.reason.as_deref() == Some("CrashLoopBackOff"))
    };
    plane.until("loop", "waits", waits).await;
    let note = note(&plane, "loop", "BackOff").await;
    assert!(
        note.starts_with("Back-off restarting failed container main in pod loop_"),
        "{note}"
    );
    plane.delete("loop").await;
    agent.end().await;
}

/// The note of the first event of that reason about a pod.
async fn note(plane: &Plane, pod: &str, reason: &str) -> String {
    let begun = std::time::Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "no event {reason} of {pod}");
        let events = plane
            .api::<Event>()
            .list(&ListParams::default())
            .await
            .unwrap();
        let mut notes = events.into_iter().filter(|it| {
            it.reason.as_deref() == Some(reason) && it.involved_object.name.as_deref() == Some(pod)
        });
        match notes.next().and_then(|it| it.message) {
            Some(note) => return note,
            None => support::pause(10).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_a_probe_finds_ill_has_an_event_that_says_so() {
    let plane = Plane::start().await;
    let Some(agent) = plane.agent() else { return };
    let probed = |probe: Value| json!({"spec": {"restartPolicy": "Always"}, "container": probe});
    // A port of that name is not there, which is no reason to take the container for ready.
    let nowhere = json!({"readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1}});
    plane
        .pod("nowhere", "exec sleep 1000", probed(nowhere))
        .await;
    let ill = json!({"livenessProbe": {"exec": {"command": ["test", "-e", "/none"]}, "periodSeconds": 1,
        "failureThreshold": 1, "terminationGracePeriodSeconds": 1}});
    // It does not end when it is asked to, and the pod has the better part of an hour.
    let stays = "trap '' TERM; while :; do sleep 0.1; done";
    let mut change = probed(ill);
    change["spec"]["terminationGracePeriodSeconds"] = json!(3000);
    plane.pod("ill", stays, change).await;
    for (pod, want) in [
        ("nowhere", "Readiness probe failed: connection to "),
        ("ill", "Liveness probe failed: test -e /none"),
    ] {
        let note = note(&plane, pod, "Unhealthy").await;
        assert!(note.starts_with(want), "{note}");
    }
    let again = |pod: &Pod| {
        let statuses = pod.status.iter().flat_map(|it| &it.container_statuses);
        statuses.flatten().any(|it| it.restart_count > 0)
    };
    plane.until("ill", "was started again", again).await;
    let pod = plane.api::<Pod>().get("nowhere").await.unwrap();
    let statuses = pod.status.unwrap().container_statuses.unwrap();
    assert!(!statuses[0].ready);
    for pod in ["nowhere", "ill"] {
        let now = DeleteParams::default().grace_period(0);
        plane.api::<Pod>().delete(pod, &now).await.unwrap();
    }
    plane.gone("nowhere").await;
    agent.end().await;
}
