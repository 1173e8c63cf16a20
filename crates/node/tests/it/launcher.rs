//! The process that supervisors are copies of.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, eventually, program};

fn words(process: &str) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).into_owned();
    let words = line.trim_end_matches('\0').split('\0');
    words.map(str::to_owned).collect()
}

#[test]
fn supervisors_outlive_their_launcher_and_are_listed_by_their_pods() {
    let Some(bench) = Bench::new() else { return };
    let first = bench.start(bench.spec("first", "exec sleep 600"));
    let supervisor = std::fs::read_to_string(first.dir.lock()).unwrap();
    let (program, folder) = (program().to_str().unwrap(), first.dir.path());
    let want = [program, "supervise", folder.to_str().unwrap()];
    assert_eq!(words(&supervisor), want);

    let launcher = bench.launcher.process().unwrap();
    let want = [program, "supervise", "--launcher"];
    assert_eq!(words(&launcher.to_string()), want);
    let pid = Pid::from_raw(launcher.cast_signed()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    gone(&launcher.to_string(), &want);
    // Another one is there as soon as it is needed.
    let second = bench.start(bench.spec("second", "echo here"));
    let end = second.finished().containers[0].terminated().cloned();
    assert_eq!(
        (end.unwrap().exit_code, second.log("main", 0)),
        (0, "here\n".into())
    );
    let launcher = bench.launcher.process().unwrap().to_string();
    assert!(first.state().containers[0].is_running());
    drop(second);

    // It ends with the agent, and supervisors do not.
    let Bench {
        data,
        launcher: agent,
    } = bench;
    drop(agent);
    gone(&launcher, &want);
    assert!(astrago_node::launch::is_supervised(&first.dir));
    first.stop(0);
    drop((first, data));
}

fn gone(process: &str, listed: &[&str]) {
    eventually("the launcher ends", || match words(process) {
        words if words == listed => Err(words.join(" ")),
        _ => Ok(()),
    });
}
