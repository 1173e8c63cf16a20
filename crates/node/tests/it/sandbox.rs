//! What a container sees and may do.

use crate::support::Bench;

#[test]
fn a_script_runs_in_namespaces_of_its_own_and_its_exit_code_and_output_are_kept() {
    let Some(bench) = Bench::new() else { return };
    let script = "echo out; echo err >&2; hostname; echo pid $$; id -u; pwd; \
        for n in user mnt pid uts ipc net cgroup; do readlink /proc/self/ns/$n; done; exit 7";
    let (end, log) = bench.run("first", script);
    assert_eq!(end.exit_code, 7, "{log} {end:?}");
    assert_eq!(end.reason, "Error");
    for want in [
        "out\n",
        "err\n",
        "first\n",
        "pid 1\n",
        "\n0\n",
        "/workspace\n",
    ] {
        assert!(log.contains(want), "{want:?} in {log}");
    }
    for name in ["user", "mnt", "pid", "uts", "ipc", "net", "cgroup"] {
        let own = std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap();
        assert!(
            !log.contains(own.to_str().unwrap()),
            "the {name} namespace is shared: {log}"
        );
    }
}
