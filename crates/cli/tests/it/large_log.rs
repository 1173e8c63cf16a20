//! A log that is larger than the memory that it may cost.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;

use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods};

/// Lines of a hundred bytes.
const CODE: &str = "for _ in range(1000): print('x' * 99 + ('\\n' + 'x' * 99) * 599)";
const BYTES: usize = 60_000_000;
/// What the server may take for passing it on, in kilobytes.
const ROOM: u64 = 32 << 10;

#[test]
fn a_large_log_is_passed_on_and_not_held() {
    if !applies(Target::is_embedded, "one process is measured") || !can_run_pods() {
        return;
    }
    let up = Up::start(&["--no-auth", "--stop-pods"]);
    let form = json!({
        "user_id": "kim", "namespace": "user-kim", "framework": "pytorch", "training_code": CODE, "name": "demo",
        "config": { "num_nodes": 1, "cpu_per_node": "100m", "memory_per_node": "512Mi" }, "max_restarts": 0,
    });
    let (code, made) = up.post("/api/trainjob/create", &form);
    assert_eq!(code, 200, "{made}");
    up.eventually("the end of the job", |up| {
        let job = up.get("/api/trainjobs/demo?namespace=user-kim").1;
        (job["state"] == "Complete").then_some(()).ok_or(job)
    });
    up.eventually("the whole log", |up| {
        let size = fetch(up, "download");
        (size >= BYTES).then_some(()).ok_or(json!(size))
    });
    // The page shows the end of a log that is too large for it.
    for (road, least) in [("download", BYTES), ("?", BYTES / 10)] {
        let memory = |name| memory(up.id(), name);
        std::fs::write(format!("/proc/{}/clear_refs", up.id()), "5").unwrap();
        let before = memory("VmHWM:");
        let size = fetch(&up, road);
        // What it had before may have gone meanwhile.
        let taken = memory("VmHWM:").saturating_sub(before);
        assert!(size >= least, "{road}: {size} bytes");
        assert!(taken < ROOM, "{road}: {taken} kB for {size} bytes");
    }
}

/// Reads a log to its end and forgets it. Returns its size, with the head of the answer.
fn fetch(up: &Up, road: &str) -> usize {
    let path = match road {
        "?" => "/api/trainjobs/demo/logs?namespace=user-kim".to_owned(),
        road => format!("/api/trainjobs/demo/logs/{road}?namespace=user-kim"),
    };
    let mut stream = TcpStream::connect(&up.address).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").unwrap();
    let (mut part, mut size) = (vec![0; 1 << 16], 0);
    while let Ok(count @ 1..) = stream.read(&mut part) {
        size += count;
    }
    size
}

fn memory(id: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}
