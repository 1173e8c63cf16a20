use super::*;
use crate::spec::Network;

fn pod(policy: RestartPolicy, init: &[&str], main: &[&str]) -> PodSpec {
    let containers = |names: &[&str]| {
        let one = |&name: &&str| ContainerSpec {
            name: name.to_owned(),
            sidecar: name.starts_with("sidecar"),
            ..ContainerSpec::default()
        };
        names.iter().map(one).collect()
    };
    PodSpec {
        uid: "u".into(),
        namespace: "n".into(),
        name: "p".into(),
        hostname: "p".into(),
        log_dir: "/logs".into(),
        restart_policy: policy,
        grace_seconds: 30,
        active_deadline_seconds: None,
        network: Network::None,
        limits: crate::spec::Limits::default(),
        init_containers: containers(init),
        containers: containers(main),
        egress: None,
        relay: None,
        storage: Vec::new(),
        gpus: Vec::new(),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn run(container: &mut ContainerState, from: i64) {
    begin(container, at(from), false, false);
}

fn exit(container: &mut ContainerState, exit_code: i32, finished: i64) {
    let Status::Running { started_at } = container.status else {
        panic!("not running")
    };
    let end = Terminated {
        exit_code,
        signal: None,
        reason: "Error".into(),
        message: None,
        started_at: Some(started_at),
        finished_at: at(finished),
    };
    terminate(container, end);
}

#[test]
fn init_containers_run_one_after_the_other_before_the_containers() {
    let spec = pod(RestartPolicy::Never, &["a", "b"], &["x", "y"]);
    let mut state = initial(&spec);
    assert_eq!(next(&spec, &state, at(0)), [Step::Start(Which::Init(0))]);
    run(&mut state.init_containers[0], 0);
    assert_eq!(next(&spec, &state, at(1)), []);
    exit(&mut state.init_containers[0], 0, 1);
    assert_eq!(next(&spec, &state, at(1)), [Step::Start(Which::Init(1))]);
    run(&mut state.init_containers[1], 1);
    exit(&mut state.init_containers[1], 0, 2);
    let want = [Step::Start(Which::Main(0)), Step::Start(Which::Main(1))];
    assert_eq!(next(&spec, &state, at(2)), want);
}

#[test]
fn a_failed_init_container_fails_a_pod_that_is_never_restarted() {
    let spec = pod(RestartPolicy::Never, &["a"], &["x"]);
    let mut state = initial(&spec);
    run(&mut state.init_containers[0], 0);
    exit(&mut state.init_containers[0], 3, 1);
    assert_eq!(next(&spec, &state, at(1)), [Step::Finish(Phase::Failed)]);
}

#[test]
fn a_sidecar_is_started_before_and_stopped_after_the_containers() {
    let spec = pod(RestartPolicy::Never, &["sidecar"], &["x"]);
    let mut state = initial(&spec);
    assert_eq!(next(&spec, &state, at(0)), [Step::Start(Which::Init(0))]);
    run(&mut state.init_containers[0], 0);
    assert_eq!(next(&spec, &state, at(0)), [Step::Start(Which::Main(0))]);
    run(&mut state.containers[0], 0);
    exit(&mut state.containers[0], 0, 5);
    assert_eq!(next(&spec, &state, at(5)), [Step::StopSidecars]);
    exit(&mut state.init_containers[0], 143, 6);
    assert_eq!(next(&spec, &state, at(6)), [Step::Finish(Phase::Succeeded)]);
}

#[test]
fn restarts_come_at_once_and_then_ever_later() {
    let spec = pod(RestartPolicy::OnFailure, &[], &["x"]);
    let mut state = initial(&spec);
    let mut now = 0;
    for (attempt, delay) in [0, 10, 20, 40, 80, 160, 300, 300].into_iter().enumerate() {
        run(&mut state.containers[0], now);
        assert_eq!(state.containers[0].attempt as usize, attempt);
        exit(&mut state.containers[0], 1, now);
        if delay > 0 {
            let want = Step::BackOff(Which::Main(0), at(now + delay));
            assert_eq!(next(&spec, &state, at(now)), [want]);
            back_off(&mut state.containers[0], at(now + delay));
            assert_eq!(next(&spec, &state, at(now)), []);
            assert_eq!(wake(&spec, &state), Some(at(now + delay)));
        }
        now += delay;
        assert_eq!(next(&spec, &state, at(now)), [Step::Start(Which::Main(0))]);
    }
    run(&mut state.containers[0], now);
    exit(&mut state.containers[0], 1, now + 601);
    assert_eq!(
        next(&spec, &state, at(now + 601)),
        [Step::Start(Which::Main(0))]
    );
}

#[test]
fn a_container_that_did_well_is_not_repeated_unless_always() {
    for (policy, want) in [
        (RestartPolicy::Always, Step::Start(Which::Main(0))),
        (RestartPolicy::OnFailure, Step::Finish(Phase::Succeeded)),
        (RestartPolicy::Never, Step::Finish(Phase::Succeeded)),
    ] {
        let spec = pod(policy, &[], &["x"]);
        let mut state = initial(&spec);
        run(&mut state.containers[0], 0);
        exit(&mut state.containers[0], 0, 1);
        assert_eq!(next(&spec, &state, at(1)), [want]);
    }
}

#[test]
fn a_stopping_pod_starts_nothing_and_ends_with_its_containers() {
    let spec = pod(RestartPolicy::Always, &[], &["x", "y"]);
    let mut state = initial(&spec);
    run(&mut state.containers[0], 0);
    state.stopping = true;
    assert_eq!(next(&spec, &state, at(1)), []);
    exit(&mut state.containers[0], 0, 1);
    assert_eq!(next(&spec, &state, at(1)), [Step::Finish(Phase::Failed)]);
}

#[test]
fn containers_of_a_killed_supervisor_follow_the_restart_policy() {
    for (policy, want) in [
        (RestartPolicy::OnFailure, Step::Start(Which::Main(0))),
        (RestartPolicy::Never, Step::Finish(Phase::Failed)),
    ] {
        let spec = pod(policy, &[], &["x"]);
        let mut state = initial(&spec);
        run(&mut state.containers[0], 0);
        recover(&mut state, at(5));
        assert_eq!(next(&spec, &state, at(5)), [want]);
        run(&mut state.containers[0], 5);
        assert_eq!(state.containers[0].attempt, 1);
    }
}

#[test]
fn the_deadline_is_a_reason_to_wake() {
    let mut spec = pod(RestartPolicy::Never, &[], &["x"]);
    spec.active_deadline_seconds = Some(60);
    let mut state = initial(&spec);
    state.started_at = Some(at(100));
    run(&mut state.containers[0], 100);
    assert_eq!(wake(&spec, &state), Some(at(160)));
}

#[test]
fn a_container_that_is_done_is_no_reason_to_wake() {
    let spec = pod(RestartPolicy::Never, &["init"], &["main"]);
    let mut state = initial(&spec);
    run(&mut state.init_containers[0], 100);
    exit(&mut state.init_containers[0], 0, 101);
    run(&mut state.containers[0], 101);
    assert_eq!(wake(&spec, &state), None);
}
