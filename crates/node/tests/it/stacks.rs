//! What the processes of a container are doing, as the supervisor tells it.

use std::time::{Duration, Instant};

use astrago_node::control::{Channel, Failure, Request, Response};
use astrago_node::stacks::Stacks;

use crate::support::{Bench, Pod, shell};

fn ask(pod: &Pod, container: &str) -> Response {
    let mut channel = Channel::connect(pod.dir.path()).unwrap();
    channel.set_timeout(Duration::from_secs(30)).unwrap();
    let container = container.to_owned();
    channel.send(&Request::Stacks { container }, &[]).unwrap();
    channel.receive::<Response>().unwrap().unwrap().0
}

fn stacks(pod: &Pod, container: &str) -> Stacks {
    let told = match ask(pod, container) {
        Response::Stacks(stacks) => Ok(stacks),
        other => Err(other),
    };
    told.unwrap()
}

#[test]
fn a_container_tells_of_its_own_processes_and_no_others() {
    let Some(bench) = Bench::new() else { return };
    let script = "LOCAL_RANK=1 RANK=5 /usr/bin/python3 -c '\nimport time\n\ndef idle():\n    print(\"ready\", flush=True)\n    time.sleep(1000)\n\nidle()\n'; true";
    let mut spec = bench.spec("stacks", script);
    spec.containers
        .push(shell("other", "echo ready; sleep 999"));
    let pod = bench.start(spec);
    pod.until_logged("main", 0, "ready");
    pod.until_logged("other", 0, "ready");
    let told = stacks(&pod, "main");
    let [bash, python] = told.processes.as_slice() else {
        panic!("{told:#?}");
    };
    assert!(
        bash.command.starts_with("bash -c") && bash.python.is_none(),
        "{bash:#?}"
    );
    assert_eq!(
        (python.parent, python.rank),
        (bash.pid, Some(5)),
        "{python:#?}"
    );
    assert!(python.python.is_some(), "{python:#?}");
    let frames: Vec<_> = python.threads[0]
        .frames
        .iter()
        .map(|frame| (frame.file.as_str(), frame.line, frame.function.as_str()))
        .collect();
    assert_eq!(
        frames,
        [
            ("<string>", Some(6), "idle"),
            ("<string>", Some(8), "<module>")
        ]
    );
    assert!(
        stacks(&pod, "other")
            .processes
            .iter()
            .all(|it| it.python.is_none())
    );
    let Response::Failed { reason, .. } = ask(&pod, "nobody") else {
        panic!("a container that does not exist")
    };
    assert_eq!(reason, Failure::NoSuchContainer);
}

/// Threads without number, and lists and stacks that lead back to themselves.
const HOSTILE: &str = r#"
import ctypes, threading, time
threading.stack_size(1 << 16)
for _ in range(150):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
def deep(depth):
    if depth:
        deep(depth - 1)
    else:
        get = ctypes.pythonapi.PyThreadState_Get
        get.restype = ctypes.c_void_p
        state = get()
        ctypes.c_uint64.from_address(state + 8).value = state
        print("ready", flush=True)
        time.sleep(1000)
deep(800)
"#;

#[test]
fn what_a_process_forges_of_itself_has_an_end() {
    let Some(bench) = Bench::new() else { return };
    let script =
        format!("for i in 1 2 3; do /usr/bin/python3 -c '{HOSTILE}' & done; exec sleep 1000");
    let mut spec = bench.spec("hostile", &script);
    spec.containers[0].limits.pids = Some(1024);
    let pod = bench.start(spec);
    pod.until_logged("main", 0, "ready\nready\nready");
    for _ in 0..3 {
        let begun = Instant::now();
        let told = stacks(&pod, "main");
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        assert!(told.truncated);
        let threads = told.processes.iter().map(|process| process.threads.len());
        assert!(threads.max().unwrap() <= 64);
        let size = serde_json::to_vec(&told).unwrap().len();
        assert!(size < 4 << 20, "{size}");
    }
    assert!(pod.state().containers[0].is_running());
}
