use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint, Toleration};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use astrago_api::quantity::Amount;

fn node(name: &str, amounts: &[(&str, &str)]) -> NodeInfo {
    NodeInfo {
        name: name.to_owned(),
        ready: true,
        allocatable: resources(amounts),
        ..NodeInfo::default()
    }
}

fn resources(amounts: &[(&str, &str)]) -> Resources {
    let mut all = Resources::default();
    all.set(PODS, Amount::whole(110));
    for (name, amount) in amounts {
        all.set(name, amount.parse().unwrap());
    }
    all
}

fn pod(amounts: &[(&str, &str)]) -> PodNeed {
    let mut requests = resources(amounts);
    requests.set(PODS, Amount::whole(1));
    PodNeed {
        requests,
        ..PodNeed::default()
    }
}

fn spec(value: serde_json::Value) -> PodSpec {
    serde_json::from_value(value).unwrap()
}

#[rstest]
#[case::containers_add_up(
    json!({"containers": [
        {"name": "a", "resources": {"requests": {"cpu": "500m"}}},
        {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}),
    &[("cpu", "1500m")])]
#[case::limits_stand_in_for_requests(
    json!({"containers": [{"name": "a", "resources": {
        "limits": {"cpu": "4", "nvidia.com/gpu": "2"}, "requests": {"cpu": "1"}}}]}),
    &[("cpu", "1"), ("nvidia.com/gpu", "2")])]
#[case::init_containers_run_before(
    json!({"initContainers": [
        {"name": "i", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}},
        {"name": "j", "resources": {"requests": {"cpu": "2"}}}],
      "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}]}),
    &[("cpu", "3"), ("memory", "2Gi")])]
#[case::sidecars_stay(
    json!({"initContainers": [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "3"}}}],
      "containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}),
    &[("cpu", "4")])]
#[case::overhead_is_added(
    json!({"overhead": {"cpu": "250m"}, "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]}),
    &[("cpu", "1250m")])]
#[case::amounts_of_the_pod_hold(
    json!({"resources": {"requests": {"cpu": "2"}},
           "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}),
    &[("cpu", "2"), ("memory", "1Gi")])]
fn a_pod_needs(#[case] value: serde_json::Value, #[case] want: &[(&str, &str)]) {
    assert_eq!(
        PodNeed::of(&spec(value)).unwrap().requests,
        pod(want).requests
    );
}

#[test]
fn an_invalid_amount_names_its_field() {
    let value = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "many"}}}]});
    let error = PodNeed::of(&spec(value)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "spec.containers[a].resources.requests[cpu] is invalid"
    );
}

#[rstest]
#[case::selector(|pod: &mut PodNeed, _: &mut NodeInfo| {
    pod.node_selector.insert("zone".into(), "b".into()); }, Some("no node matches its nodeSelector: can never fit"))]
#[case::selector_met(|pod: &mut PodNeed, _: &mut NodeInfo| {
    pod.node_selector.insert("zone".into(), "a".into()); }, None)]
#[case::affinity(|pod: &mut PodNeed, _: &mut NodeInfo| {
    pod.affinity = Some(affinity("zone", "NotIn", &["a"])); },
    Some("no node matches its required node affinity: can never fit"))]
#[case::affinity_met(|pod: &mut PodNeed, _: &mut NodeInfo| {
    pod.affinity = Some(affinity("zone", "In", &["b", "a"])); }, None)]
#[case::affinity_greater(|pod: &mut PodNeed, _: &mut NodeInfo| {
    pod.affinity = Some(affinity("generation", "Gt", &["2"])); }, None)]
#[case::affinity_without_terms(|pod: &mut PodNeed, _: &mut NodeInfo| { pod.affinity = Some(vec![]); },
    Some("no node matches its required node affinity: can never fit"))]
#[case::taint(|_: &mut PodNeed, node: &mut NodeInfo| { node.taints.push(taint("gpu", "NoSchedule")); },
    Some("every node has a taint that it does not tolerate: can never fit"))]
#[case::taint_tolerated(|pod: &mut PodNeed, node: &mut NodeInfo| {
    node.taints.push(taint("gpu", "NoSchedule"));
    pod.tolerations.push(Toleration { key: Some("gpu".into()), operator: Some("Exists".into()), ..Toleration::default() });
    }, None)]
#[case::taint_tolerated_for_another_value(|pod: &mut PodNeed, node: &mut NodeInfo| {
    node.taints.push(taint("gpu", "NoExecute"));
    pod.tolerations.push(Toleration { key: Some("gpu".into()), value: Some("no".into()), ..Toleration::default() });
    }, Some("every node has a taint that it does not tolerate: can never fit"))]
#[case::soft_taint(|_: &mut PodNeed, node: &mut NodeInfo| { node.taints.push(taint("old", "PreferNoSchedule")); }, None)]
#[case::cordoned(|_: &mut PodNeed, node: &mut NodeInfo| { node.unschedulable = true; },
    Some("every suitable node is marked unschedulable"))]
#[case::not_ready(|_: &mut PodNeed, node: &mut NodeInfo| { node.ready = false; }, Some("no suitable node is ready"))]
#[case::lost(|_: &mut PodNeed, node: &mut NodeInfo| {
    node.taints.push(taint("node.kubernetes.io/unreachable", "NoExecute")); }, Some("no suitable node is ready"))]
fn a_node_may_be_used(#[case] change: fn(&mut PodNeed, &mut NodeInfo), #[case] want: Option<&str>) {
    let mut need = pod(&[("cpu", "1")]);
    let mut node = node("a", &[("cpu", "4")]);
    node.labels = [("zone", "a"), ("generation", "3")]
        .map(|(k, v)| (k.into(), v.into()))
        .into();
    change(&mut need, &mut node);
    let got = match Cluster::empty(vec![node]).verdict(&[need]) {
        Verdict::Now(_) => None,
        Verdict::Later(cause) | Verdict::Never(cause) => Some(cause.to_string()),
    };
    assert_eq!(got.as_deref(), want);
}

fn affinity(
    key: &str,
    operator: &str,
    values: &[&str],
) -> Vec<k8s_openapi::api::core::v1::NodeSelectorTerm> {
    let rule = json!({"key": key, "operator": operator, "values": values});
    serde_json::from_value(json!([{"matchExpressions": [rule]}])).unwrap()
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint {
        key: key.into(),
        effect: effect.into(),
        value: Some("yes".into()),
        ..Taint::default()
    }
}

#[rstest]
#[case::shortage(4, "2", "needs 8 GPUs, 2 free")]
#[case::scattered(1, "2", "needs 2 GPUs on one node, at most 1 free")]
#[case::too_big(1, "8", "needs 8 GPUs, but the largest node has 4: can never fit")]
#[case::too_much(3, "4", "needs 12 GPUs, but all nodes together have 8: can never fit")]
fn says_why_gpus_do_not_fit(#[case] pods: usize, #[case] gpus: &str, #[case] want: &str) {
    let mut cluster = Cluster::empty(vec![node("a", &[(GPU, "4")]), node("b", &[(GPU, "4")])]);
    for free in &mut cluster.free {
        free.set(GPU, Amount::whole(1));
    }
    let verdict = cluster.verdict(&vec![pod(&[(GPU, gpus)]); pods]);
    let (Verdict::Later(cause) | Verdict::Never(cause)) = verdict else {
        panic!("it fits")
    };
    assert_eq!(cause.to_string(), want);
}

#[test]
fn without_nodes_it_waits_rather_than_never_fits() {
    let verdict = Cluster::default().verdict(&[pod(&[("cpu", "1")])]);
    assert_eq!(verdict, Verdict::Later(Cause::NotReady));
}

#[test]
fn gpus_are_packed_and_the_rest_is_balanced_away_from_them() {
    let big = [("cpu", "16"), ("memory", "64Gi"), (GPU, "8")];
    let plain = [("cpu", "16"), ("memory", "64Gi")];
    let mut cluster = Cluster::empty(vec![
        node("g0", &big),
        node("g1", &big),
        node("c0", &plain),
        node("c1", &plain),
    ]);
    cluster.free[1].set(GPU, Amount::whole(2));
    cluster.free[2].set("cpu", Amount::whole(8));
    let gpu = pod(&[("cpu", "1"), (GPU, "2")]);
    assert_eq!(
        cluster.verdict(std::slice::from_ref(&gpu)),
        Verdict::Now(vec![1])
    );
    assert_eq!(
        cluster.verdict(&[gpu.clone(), gpu]),
        Verdict::Now(vec![1, 0])
    );
    let cpu = pod(&[("cpu", "1")]);
    assert_eq!(cluster.verdict(&[cpu]), Verdict::Now(vec![3]));
}

#[test]
fn load_of_bound_pods_counts_until_they_end() {
    let node: Node = serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {
        "allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}}))
    .unwrap();
    let pod = |phase: &str| -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "status": {"phase": phase}, "spec": {
            "nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}))
        .unwrap()
    };
    let pods = [
        pod("Running"),
        pod("Succeeded"),
        pod("Pending"),
        pod("Failed"),
    ];
    let cluster = Cluster::of(&[node], &pods).unwrap();
    assert_eq!(cluster.free[0], resources(&[("cpu", "2"), ("pods", "8")]));
}

#[rstest]
#[case("needs 4 GPUs, 2 free; 1 job ahead", json!({"code": "shortage", "ahead": 1,
    "parameters": {"resource": GPU, "needed": "4", "free": "2"}}))]
#[case("needs 64 CPUs, but the largest node has 8: can never fit", json!({"code": "too_big",
    "parameters": {"resource": CPU, "needed": "64", "largest": "8"}}))]
#[case("needs 15.6Gi memory on one node, at most 0.5 free; 20+ jobs ahead", json!({"code": "scattered", "ahead": 20,
    "parameters": {"resource": MEMORY, "needed": "16000Mi", "free": "500m"}}))]
#[case("needs 2 example.com/fpga, but quota team allows 1: can never run", json!({"code": "over_quota",
    "parameters": {"quota": "team", "resource": "example.com/fpga", "needed": "2", "hard": "1"}}))]
#[case("needs 1 GPU, 0 left in quota team; 9 jobs ahead", json!({"code": "quota", "ahead": 9,
    "parameters": {"quota": "team", "resource": GPU, "needed": "1", "free": "0"}}))]
#[case("waits for 1 more pod of its job", json!({"code": "pods", "parameters": {"missing": 1}}))]
#[case("waits for volume claim data, which does not exist", json!({"code": "no_claim",
    "parameters": {"claim": "data"}}))]
#[case("fits, but could delay a job ahead", json!({"code": "kept"}))]
#[case("the pod cannot be read", json!({"code": "other", "parameters": {"text": "the pod cannot be read"}}))]
fn a_reason_is_a_code_for_programs_and_a_sentence_for_people(
    #[case] sentence: &str,
    #[case] code: Value,
) {
    let waiting: Waiting = serde_json::from_value(code.clone()).unwrap();
    assert_eq!(waiting.to_string(), sentence);
    assert_eq!(json!(waiting), code);
}

/// What is written on a pod is believed together with its sentence only, and never at any length.
#[rstest]
#[case::ours("fits, but could delay a job ahead", r#"{"code":"kept"}"#, true)]
#[case::of_another_scheduler(
    "0/3 nodes are available: 3 Insufficient cpu.",
    r#"{"code":"kept"}"#,
    false
)]
#[case::an_unknown_code("something new", r#"{"code":"new"}"#, false)]
#[case::no_json("kept", "kept", false)]
#[case::too_long("fits, but could delay a job ahead", &format!("{}{}", r#"{"code":"kept"}"#, " ".repeat(4096)), false)]
fn the_words_of_others_are_kept_as_they_are(
    #[case] message: &str,
    #[case] annotation: &str,
    #[case] ours: bool,
) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"annotations": {"astrago.io/waiting": annotation}},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]},
    }))
    .unwrap();
    let waiting = Waiting::of(&pod).unwrap();
    assert_eq!(waiting.to_string(), message);
    assert_eq!(waiting.cause == Cause::Kept, ours);
    assert_eq!(Waiting::written_on(&pod).is_some(), ours);
}

fn amount() -> impl Strategy<Value = Amount> + Clone {
    prop_oneof![
        (0_i64..64).prop_map(Amount::whole),
        (0_i64..64_000).prop_map(Amount::milli)
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    let resource = prop_oneof![Just(CPU), Just(GPU), Just(MEMORY), Just("example.com/fpga")]
        .prop_map(str::to_owned);
    let free = (resource, amount(), amount());
    prop_oneof![
        free.clone()
            .prop_map(|(resource, needed, free)| Cause::Shortage {
                resource,
                needed,
                free
            }),
        free.clone()
            .prop_map(|(resource, needed, free)| Cause::Scattered {
                resource,
                needed,
                free
            }),
        free.clone()
            .prop_map(|(resource, needed, largest)| Cause::TooBig {
                resource,
                needed,
                largest
            }),
        free.clone()
            .prop_map(|(resource, needed, all)| Cause::TooMuch {
                resource,
                needed,
                all
            }),
        free.clone().prop_map(|(resource, needed, free)| {
            Cause::Quota {
                quota: "team-a".into(),
                resource,
                needed,
                free,
            }
        }),
        free.prop_map(|(resource, needed, hard)| {
            Cause::OverQuota {
                quota: "team-a".into(),
                resource,
                needed,
                hard,
            }
        }),
        (0_u64..100, 0_u64..100).prop_map(|(pods, fits)| Cause::Room { pods, fits }),
        (1_u64..100).prop_map(|missing| Cause::Pods { missing }),
        (1_u64..100).prop_map(|pods| Cause::NotTogether { pods }),
        Just(Cause::Kept),
        Just(Cause::Cordoned),
        Just(Cause::Gated {
            gate: "example.com/hold".into()
        }),
    ]
}

proptest! {
    #[test]
    fn every_reason_reads_back(cause in cause(), ahead in 0_usize..5000) {
        let waiting = Waiting { cause, ahead: Ahead::new(ahead) };
        let again: Waiting = serde_json::from_str(&json!(waiting).to_string()).unwrap();
        prop_assert_eq!(again.to_string(), waiting.to_string());
        prop_assert_eq!(again, waiting);
    }

    /// Equal pods: the answer is "now" exactly when the nodes can be filled one by one. Whatever
    /// the answer, a placement never takes more than there is.
    #[test]
    fn equal_pods_are_placed_whenever_they_can_be(
        free in prop::collection::vec((0_i64..16, 0_i64..8), 1..6),
        cpu in 1_i64..6, gpu in 0_i64..4, pods in 1_usize..10,
    ) {
        let need = PodNeed {
            requests: [(CPU, Amount::whole(cpu)), (GPU, Amount::whole(gpu))].into_iter().collect(),
            ..PodNeed::default()
        };
        let mut cluster = Cluster::empty(
            (0..free.len()).map(|i| node(&format!("n{i}"), &[("cpu", "16"), (GPU, "8")])).collect());
        for (room, (cpu, gpu)) in cluster.free.iter_mut().zip(&free) {
            *room = [(CPU, Amount::whole(*cpu)), (GPU, Amount::whole(*gpu))].into_iter().collect();
        }
        let room: i64 = free.iter().map(|(c, g)| (c / cpu).min(if gpu == 0 { 99 } else { g / gpu })).sum();
        let verdict = cluster.verdict(&vec![need.clone(); pods]);
        match verdict {
            Verdict::Now(nodes) => {
                prop_assert!(room >= i64::try_from(pods).unwrap());
                prop_assert_eq!(nodes.len(), pods);
                for node in nodes {
                    prop_assert!(cluster.free[node].covers(&need.requests));
                    cluster.free[node].subtract(&need.requests);
                }
            }
            Verdict::Later(_) | Verdict::Never(_) => prop_assert!(room < i64::try_from(pods).unwrap()),
        }
    }
}
