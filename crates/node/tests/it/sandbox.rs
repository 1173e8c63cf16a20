//! What a container sees and may do.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use astrago_node::control::{Channel, Exec, Request, Response};
use astrago_node::launch;
use astrago_node::phase::Phase;
use astrago_node::spec::{Handler, Limits, Mount, Network, Probe, RestartPolicy, Root};
use nix::unistd::geteuid;

use crate::support::{Bench, PROGRAM, Pod, eventually, open_to_all, program, shell, skip};

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
        "pid 2\n",
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

#[test]
fn hostile_reads_and_calls_are_refused() {
    let Some(bench) = Bench::new() else { return };
    std::fs::write(bench.data.path().join("secret"), "treasure").unwrap();
    let other = bench.start(bench.spec("other", "echo treasure > /tmp/mine; sleep 60"));
    other.until("runs", |state| state.containers[0].is_running());
    let data = bench.data.path().display();
    let script = format!(
        "cat {data}/secret {data}/pods/*/pod.json; ls {data}; ls /root/.ssh /home/*; cat /etc/shadow; \
        cat /proc/kcore | head -c 1; mount -t tmpfs none /tmp; unshare -Ur true; unshare -m true; \
        echo b > /proc/sysrq-trigger; echo x > /proc/sys/kernel/core_pattern; mknod /tmp/disk b 8 0; \
        ls /sys/fs/cgroup | head -1; kill -9 -1; \
        python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True)\n\
for n in (250, 321, 323, 246): print(n, l.syscall(n, 0, 0, 0, 0), ctypes.get_errno())'; \
        ps -e 2>/dev/null | wc -l; echo $(( $(ls /proc | grep -c '^[0-9]') < 12 )); echo fine"
    );
    let (end, log) = bench.run("hostile", &script);
    assert_eq!(end.exit_code, 0, "{log}");
    assert!(!log.contains("treasure") && !log.contains("root:"), "{log}");
    assert!(log.ends_with("1\nfine\n"), "{log}");
    for want in [
        "mount: ",
        "unshare: unshare failed: Operation not permitted",
        "mknod: ",
    ] {
        assert!(log.contains(want), "{want:?} in {log}");
    }
    #[cfg(target_arch = "x86_64")]
    for call in [250, 321, 323, 246] {
        assert!(
            log.contains(&format!("{call} -1 1\n")),
            "system call {call} in {log}"
        );
    }
    assert!(
        other.state().containers[0].is_running(),
        "the other pod was disturbed"
    );
    other.stop(0);
}

#[test]
fn the_system_folders_are_private_and_writable() {
    let Some(bench) = Bench::new() else { return };
    let script = "set -e; for f in /usr/local/bin/made /usr/bin/made /etc/made /opt/made /made /var/made /root/made; do echo x > $f; done; \
        rm /etc/hostname; echo mine > /etc/hostname; cat /etc/hostname";
    let (end, log) = bench.run("writer", script);
    assert_eq!((end.exit_code, log.as_str()), (0, "mine\n"));
    for path in [
        "/usr/local/bin/made",
        "/usr/bin/made",
        "/etc/made",
        "/opt/made",
        "/made",
    ] {
        assert!(!Path::new(path).exists(), "{path} was made on the host");
    }
    let (_, log) = bench.run(
        "reader",
        "ls /usr/local/bin/made /etc/made /made 2>&1; echo $?",
    );
    assert!(log.ends_with("2\n"), "{log}");
}

#[test]
fn init_containers_run_in_order_and_share_volumes_with_the_containers() {
    let Some(bench) = Bench::new() else { return };
    let volume = bench.data.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("escape")).unwrap();
    open_to_all(&volume);
    let mount = |target: &str, sub_path: Option<&str>, read_only| Mount::Bind {
        source: volume.clone(),
        host: None,
        sub_path: sub_path.map(Into::into),
        target: target.into(),
        read_only,
    };
    let mut spec = bench.spec(
        "ordered",
        "cat /v/order; touch /v/no 2>&1; ls /part; echo x > /mem/y; df -k /mem | tail -1",
    );
    spec.init_containers = vec![
        shell(
            "one",
            "echo one >> /v/order; mkdir /v/sub; touch /v/sub/file",
        ),
        shell("two", "echo two >> /v/order"),
    ];
    for init in &mut spec.init_containers {
        init.mounts = vec![mount("/v", None, false)];
    }
    spec.containers[0].mounts = vec![
        mount("/v", None, true),
        mount("/part", Some("sub"), false),
        Mount::Memory {
            key: "mem".into(),
            sub_path: Some("part/of".into()),
            target: "/mem".into(),
            size: Some(8 << 20),
            read_only: false,
        },
    ];
    let pod = bench.start(spec);
    let state = pod.finished();
    let log = pod.log("main", 0);
    assert_eq!(state.phase, Phase::Succeeded, "{log} {state:?}");
    assert!(log.starts_with("one\ntwo\n"), "{log}");
    assert!(
        log.contains("Read-only file system") && log.contains("file\n") && log.contains("8192"),
        "{log}"
    );
    let mut trap = bench.spec("trap", "ls /trap");
    trap.containers[0].mounts = vec![mount("/trap", Some("escape"), false)];
    let pod = bench.start(trap);
    let end = pod.finished().containers[0].terminated().cloned().unwrap();
    assert_eq!(
        end.reason, "ContainerCannotRun",
        "a link in a volume led to the host: {end:?}"
    );
}

#[test]
fn what_a_container_installs_for_python_stays_in_the_container() {
    let Some(bench) = Bench::new() else { return };
    let python = bench.data.path().join("venv");
    let packages = python.join("lib/site-packages");
    std::fs::create_dir_all(&packages).unwrap();
    std::fs::write(packages.join("old.py"), "").unwrap();
    let at = packages.display();
    let script = format!("touch {at}/new.py && rm {at}/old.py && ls {at}");
    let mut spec = bench.spec("installs", &script);
    spec.containers[0].root = Root::Host {
        read_only: vec![python],
    };
    let pod = bench.start(spec);
    let state = pod.finished();
    let log = pod.log("main", 0);
    assert_eq!(state.phase, Phase::Succeeded, "{log} {state:?}");
    assert_eq!(log, "new.py\n");
    assert!(packages.join("old.py").exists() && !packages.join("new.py").exists());
}

#[test]
fn a_host_folder_stays_what_it_is_and_is_nobodys_way_to_become_root() {
    use std::os::unix::fs::{MetadataExt, chown, symlink};
    let Some(bench) = Bench::new() else { return };
    let folder = bench.data.path().canonicalize().unwrap().join("folder");
    std::fs::create_dir_all(folder.join("sub")).unwrap();
    open_to_all(&folder);
    let is_root = std::fs::metadata(&folder).unwrap().uid() == 0;
    if is_root {
        chown(folder.join("sub"), Some(1000), Some(1000)).unwrap();
    }
    symlink("sub", folder.join("alias")).unwrap();
    let mount = |inside: &str, target: &str| Mount::Bind {
        source: folder.clone(),
        host: Some(inside.into()),
        sub_path: None,
        target: target.into(),
        read_only: false,
    };
    let script =
        "touch /all/made /sub/made; ls /alias; mv /all/sub /all/old; ln -s / /all/sub; exit 3";
    let mut spec = bench.spec("nosy", script);
    spec.restart_policy = RestartPolicy::OnFailure;
    spec.containers[0].mounts = vec![
        mount("", "/all"),
        mount("sub", "/sub"),
        mount("alias", "/alias"),
    ];
    let pod = bench.start(spec);
    let owner = |path: &str| std::fs::metadata(folder.join(path)).unwrap().uid();
    let state = pod.until("is not started with the link", |state| {
        let container = &state.containers[0];
        let end = container.terminated().or(container.last.as_ref());
        end.is_some_and(|end| end.reason == "ContainerCannotRun")
    });
    assert_eq!(pod.log("main", 0), "made\n", "{state:?}");
    assert_eq!(pod.log("main", 1), "", "the host was seen");
    if is_root {
        assert_eq!(owner("old/made"), 1000, "as the owner of its folder");
        assert!(owner("made") > 1 << 16, "{}", owner("made"));
    }
    pod.stop(0);
}

#[test]
fn containers_are_restarted_by_their_policy_and_every_attempt_has_its_log() {
    let Some(bench) = Bench::new() else { return };
    let mark = bench.data.path().join("mark");
    std::fs::create_dir(&mark).unwrap();
    open_to_all(&mark);
    let mut spec = bench.spec(
        "again",
        "echo run; [ -e /mark/x ] && exit 0; touch /mark/x; exit 3",
    );
    spec.restart_policy = RestartPolicy::OnFailure;
    spec.containers[0].mounts = vec![Mount::Bind {
        source: mark,
        host: None,
        sub_path: None,
        target: "/mark".into(),
        read_only: false,
    }];
    let pod = bench.start(spec);
    let state = pod.finished();
    assert_eq!(state.phase, Phase::Succeeded);
    let container = &state.containers[0];
    assert_eq!(
        (
            container.attempt,
            container.last.as_ref().unwrap().exit_code
        ),
        (1, 3)
    );
    assert_eq!(
        (pod.log("main", 0).as_str(), pod.log("main", 1).as_str()),
        ("run\n", "run\n")
    );
}

#[test]
fn a_pod_is_asked_to_end_and_then_made_to() {
    let Some(bench) = Bench::new() else { return };
    let polite = bench.start(bench.spec(
        "polite",
        "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done",
    ));
    polite.until_logged("main", 0, "up");
    polite.stop(30);
    let state = polite.finished();
    assert_eq!(state.containers[0].terminated().unwrap().exit_code, 0);
    assert_eq!(polite.log("main", 0), "up\nbye\n");
    let stubborn = bench.start(bench.spec(
        "stubborn",
        "trap '' TERM; echo up; while :; do sleep 0.05; done",
    ));
    stubborn.until_logged("main", 0, "up");
    stubborn.stop(1);
    let end = stubborn.finished().containers[0]
        .terminated()
        .cloned()
        .unwrap();
    assert_eq!((end.exit_code, end.signal), (137, Some(9)));
}

#[test]
fn a_pod_that_runs_may_be_given_less_time_and_not_more() {
    let Some(bench) = Bench::new() else { return };
    let pod = bench.start(bench.spec("late", "echo up; exec sleep 1000"));
    pod.until_logged("main", 0, "up");
    for seconds in [2000, 1, 3000] {
        launch::set_deadline(&pod.dir, seconds).unwrap();
    }
    let state = pod.finished();
    assert_eq!(state.phase, Phase::Failed);
    assert_eq!(state.reason.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn a_container_is_asked_to_end_by_the_signal_that_it_names() {
    let Some(bench) = Bench::new() else { return };
    let script = "trap 'echo term' TERM; trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.05; done";
    let mut spec = bench.spec("named", script);
    spec.containers[0].stop_signal = Some("SIGUSR1".into());
    let pod = bench.start(spec);
    pod.until_logged("main", 0, "up");
    pod.stop(600);
    let state = pod.finished();
    assert_eq!(state.containers[0].terminated().unwrap().exit_code, 0);
    assert_eq!(pod.log("main", 0), "up\nsaved\n");
}

/// As in `sh -c 'prepare; python train.py'`: whoever was started first need not listen.
#[test]
fn a_program_without_a_handler_is_ended_by_sigterm_and_what_it_started_is_asked_too() {
    let Some(bench) = Bench::new() else { return };
    let python = bench.start(bench.spec(
        "python",
        "exec python3 -c 'import time; print(\"up\", flush=True); time.sleep(600)'",
    ));
    python.until_logged("main", 0, "up");
    python.stop(600);
    let end = python.finished().containers[0]
        .terminated()
        .cloned()
        .unwrap();
    assert_eq!((end.exit_code, end.signal), (143, Some(15)));

    let wrapped = bench.start(bench.spec(
        "wrapped",
        "bash -c 'trap \"echo saved; exit 0\" TERM; echo up; while :; do sleep 0.05; done'; echo never",
    ));
    wrapped.until_logged("main", 0, "up");
    wrapped.stop(600);
    let end = wrapped.finished().containers[0]
        .terminated()
        .cloned()
        .unwrap();
    assert_eq!((end.exit_code, end.signal), (143, Some(15)));
    let log = wrapped.log("main", 0);
    assert!(log.contains("saved\n") && !log.contains("never"), "{log}");
}

#[test]
fn process_one_waits_for_orphans_passes_signals_on_and_keeps_its_secrets() {
    let Some(bench) = Bench::new() else { return };
    let mut spec = bench.spec(
        "orphans",
        "(bash -c 'echo $$ > /tmp/orphan' &); \
        until [ -s /tmp/orphan ] && [ ! -d /proc/$(cat /tmp/orphan) ]; do sleep 0.05; done; \
        tr '\\0' ' ' < /proc/1/cmdline; echo; \
        for f in exe mem environ root/etc maps; do cat /proc/1/$f >/dev/null 2>&1 && echo /proc/1/$f can be read; done; \
        trap 'echo usr1; exit 5' USR1; kill -USR1 1; while :; do sleep 0.05; done",
    );
    spec.containers[0].capabilities_add = vec!["SYS_PTRACE".into()];
    let pod = bench.start(spec);
    let end = pod.finished().containers[0].terminated().cloned().unwrap();
    let log = pod.log("main", 0);
    assert_eq!((end.exit_code, end.signal), (5, None), "{log}");
    assert_eq!(log.replace(' ', ""), "init\nusr1\n");
}

#[test]
fn what_the_machine_has_once_is_shared_or_closed() {
    let Some(bench) = Bench::new() else { return };
    let script = "exec python3 -c 'import ctypes, socket
for family in (1, 2, 10, 16): socket.socket(family, 2 if family != 16 else 3).close()
for family in (15, 17, 21, 30, 31, 38, 40):
    try: socket.socket(family, 2)
    except OSError as e: print(family, e.errno)
libc = ctypes.CDLL(None)
print(sum(libc.inotify_init1(0) >= 0 for _ in range(1000)))'";
    let (end, log) = bench.run("exotic", script);
    assert_eq!(end.exit_code, 0, "{log}");
    let whole = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap();
    let share = whole.trim().parse::<u32>().unwrap() / 8;
    let want = format!("15 97\n17 97\n21 97\n30 97\n31 97\n38 97\n40 97\n{share}\n");
    assert_eq!(log, want);
    for place in ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"] {
        let limit = Path::new(place).join("astrago/pids.max");
        if geteuid().is_root() && limit.exists() {
            let limit = std::fs::read_to_string(limit).unwrap();
            assert!(limit.trim().parse::<u64>().is_ok(), "{limit}");
        }
    }
}

#[test]
fn a_disk_that_was_mounted_before_the_pod_can_be_taken_out_while_it_runs() {
    let Some(bench) = Bench::new() else { return };
    let disk = tempfile::tempdir().unwrap();
    let disk = disk.path();
    let nothing = None::<&str>;
    let flags = nix::mount::MsFlags::empty();
    if nix::mount::mount(nothing, disk, Some("tmpfs"), flags, nothing).is_err() {
        // An ordinary user mounts nothing on the machine.
        return;
    }
    let pod = bench.start(bench.spec("beside", "sleep 600"));
    pod.until("runs", |state| state.containers[0].is_running());
    nix::mount::umount(disk).unwrap();
    let id = std::fs::read_to_string(pod.dir.lock()).unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{id}/mountinfo")).unwrap();
    assert!(!mounts.is_empty());
    assert!(!mounts.contains(disk.to_str().unwrap()), "{mounts}");
    pod.stop(0);
}

#[test]
fn descriptors_of_whoever_started_the_node_do_not_reach_containers() {
    let Some(bench) = Bench::new() else { return };
    let folder = std::fs::File::open(bench.data.path()).unwrap();
    // Without `FD_CLOEXEC`, as a shell leaves it.
    let _open = rustix::io::dup(&folder).unwrap();
    let spec = bench.spec(
        "closed",
        "readlink /proc/self/fd/* | grep -v -e ^/proc -e pipe: -e /dev/null; sleep 600",
    );
    let pod = bench.start(spec);
    pod.until("runs", |state| state.containers[0].is_running());
    for process in processes(&pod) {
        for entry in std::fs::read_dir(format!("/proc/{process}/fd")).unwrap() {
            let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
            assert_ne!(target, bench.data.path(), "the supervisor has it open");
        }
    }
    pod.stop(0);
    pod.finished();
    assert_eq!(pod.log("main", 0), "");
}

#[test]
fn a_memory_hog_and_a_fork_bomb_stay_in_their_pod() {
    let Some(bench) = Bench::new() else { return };
    let mut bomb = bench.spec("bomb", "exec python3 -c 'import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\nexcept OSError as e: print(n < 64, e.errno)'");
    bomb.containers[0].limits.pids = Some(64);
    let pod = bench.start(bomb);
    pod.finished();
    assert_eq!(pod.log("main", 0), "True 11\n");
    let mut hog = bench.spec(
        "hog",
        "exec python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'",
    );
    hog.containers[0].limits = Limits {
        memory: Some(64 << 20),
        pids: Some(64),
        ..Limits::default()
    };
    let pod = bench.start(hog);
    let end = pod.finished().containers[0].terminated().cloned().unwrap();
    assert_eq!((end.exit_code, end.reason.as_str()), (137, "OOMKilled"));
}

#[test]
fn probes_and_termination_messages_reach_the_state() {
    let Some(bench) = Bench::new() else { return };
    let probe = |script: &str| Probe {
        handler: Handler::Exec {
            argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        },
        initial_delay_seconds: 0,
        period_seconds: 1,
        timeout_seconds: 5,
        success_threshold: 1,
        failure_threshold: 1,
        grace_seconds: None,
    };
    let mut spec = bench.spec("probed", "sleep 0.3; touch /tmp/ready; until [ -e /tmp/ill ]; do sleep 0.05; done; trap 'echo last words; exit 4' TERM; while :; do sleep 0.05; done");
    spec.containers[0].readiness_probe = Some(probe("test -e /tmp/ready"));
    spec.containers[0].liveness_probe = Some(probe(
        "touch /tmp/seen; test ! -e /tmp/ill || exit 1; touch /tmp/ill",
    ));
    spec.containers[0].termination_message_from_logs = true;
    let pod = bench.start(spec);
    pod.until("is ready", |state| state.containers[0].ready);
    let end = pod.finished().containers[0].terminated().cloned().unwrap();
    assert_eq!(
        (end.exit_code, end.message.as_deref()),
        (4, Some("last words\n"))
    );
}

#[test]
fn a_killed_supervisor_takes_its_containers_along_and_the_policy_decides() {
    let Some(bench) = Bench::new() else { return };
    for (policy, want) in [
        (RestartPolicy::Never, None),
        (RestartPolicy::OnFailure, Some(1)),
    ] {
        let mut spec = bench.spec("victim", "echo run; sleep 600");
        spec.restart_policy = policy;
        let pod = bench.start(spec);
        pod.until_logged("main", 0, "run");
        for process in processes(&pod) {
            let _ = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(process),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
        pod.unsupervised();
        assert!(processes(&pod).is_empty());
        bench.launch(&pod);
        match want {
            None => {
                let end = pod.finished().containers[0].terminated().cloned().unwrap();
                assert_eq!(end.exit_code, 137);
            }
            Some(attempt) => {
                pod.until_logged("main", attempt, "run");
                assert_eq!(pod.log("main", attempt), "run\n");
                pod.stop(0);
                pod.finished();
            }
        }
        assert_eq!(pod.log("main", 0), "run\n");
    }
}

#[test]
fn a_second_launch_of_the_same_pod_starts_nothing_and_nothing_is_left_at_the_end() {
    let Some(bench) = Bench::new() else { return };
    let mut spec = bench.spec(
        "once",
        "echo run; until [ -e /tmp/stop ]; do sleep 0.05; done",
    );
    spec.network = Network::Bridge {
        bridge: "ns9".into(),
        address: [10, 224, 36, 2].into(),
        prefix: 22,
        gateway: None,
    };
    let pod = bench.start(spec);
    pod.until_logged("main", 0, "run");
    for _ in 0..10 {
        bench.launch(&pod);
    }
    // A launch that found one at work has said so before its own process is gone.
    eventually("one supervisor is left", || match processes(&pod).len() {
        1 => Ok(()),
        many => Err(format!("{many} live")),
    });
    pod.stop(0);
    pod.finished();
    assert_eq!(pod.log("main", 0), "run\n");
    eventually("no process is left", || {
        if processes(&pod).is_empty() {
            Ok(())
        } else {
            Err("one lives".to_owned())
        }
    });
    let path = pod.dir.path().to_owned();
    launch::remove(&pod.dir, &pod.spec.uid).unwrap();
    assert!(!path.exists());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(path.to_str().unwrap()), "{mounts}");
    for controller in ["memory", "pids", "cpu", "."] {
        assert!(
            !Path::new("/sys/fs/cgroup")
                .join(controller)
                .join("astrago")
                .join(&pod.spec.uid)
                .exists()
        );
    }
}

/// A terminal has a name where its program can find it, and is no way out: the supervisor opens it for
/// whoever asks, but in the container's own `/dev/pts` and never what was put in its place.
#[test]
fn a_terminal_is_one_of_the_containers_own() {
    let Some(bench) = Bench::new() else { return };
    let mut spec = bench.spec("terminal", "echo up; exec sleep 600");
    spec.containers[0].user = 7;
    // Nothing, a file, a pipe, and links to the real thing in the place of the real thing.
    let swap = |name: &str, make: &str| {
        let wait = "os.chroot('/tmp/r'); os.write(1, b'up\\n'); os.read(os.pipe()[0], 1)";
        let script =
            format!("mkdir -p /tmp/r/dev/pts; {make}; exec python3 -c \"import os; {wait}\"");
        shell(name, &script)
    };
    spec.containers.extend([
        swap("none", "true"),
        swap("file", "echo x > /tmp/r/dev/pts/ptmx"),
        swap("pipe", "mkfifo /tmp/r/dev/pts/ptmx"),
        swap("link", "ln -s /dev/pts/ptmx /tmp/r/dev/pts/ptmx"),
        swap(
            "up",
            "rmdir /tmp/r/dev/pts; ln -s ../../../../../dev/pts /tmp/r/dev/pts",
        ),
    ]);
    let pod = bench.start(spec);
    let ask = |request: &Request, descriptors: &[BorrowedFd<'_>]| {
        let mut channel = Channel::connect(pod.dir.path()).unwrap();
        channel.send(request, descriptors).unwrap();
        let (answer, sent) = channel.receive::<Response>().unwrap().unwrap();
        (channel, answer, sent)
    };
    let terminal = |container: &str| {
        pod.until_logged(container, 0, "up");
        let container = container.to_owned();
        let (_, answer, sent) = ask(&Request::Terminal { container }, &[]);
        (answer, sent)
    };
    let (answer, sent) = terminal("main");
    assert_eq!(answer, Response::Done);
    let [near, far] = <[OwnedFd; 2]>::try_from(sent).unwrap();
    let script = "tty; test -c $(tty) && stat -c %u $(tty); echo to its own name > $(tty)";
    let exec = Exec {
        container: "main".into(),
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        tty: true,
        ..Exec::default()
    };
    let (mut channel, answer, _) = ask(&Request::Exec(exec), &[far.as_fd()]);
    assert_eq!(answer, Response::Started);
    let (answer, _) = channel.receive::<Response>().unwrap().unwrap();
    // Once nobody has the far end any more, reading ends with an error after the last byte.
    drop(far);
    let mut shown = Vec::new();
    let _ = std::io::Read::read_to_end(&mut File::from(near), &mut shown);
    let shown = String::from_utf8_lossy(&shown);
    assert_eq!(shown, "/dev/pts/0\r\n7\r\nto its own name\r\n");
    assert_eq!(answer, Response::Exited { code: 0 });
    for container in ["none", "file", "pipe", "link", "up"] {
        let (answer, sent) = terminal(container);
        assert!(matches!(answer, Response::Failed { .. }), "{container}");
        assert!(sent.is_empty());
    }
}

/// All of the above once more without any rights, where these tests have some to give up.
#[test]
fn everything_works_for_an_ordinary_user_too() {
    if !geteuid().is_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    open_to_all(home.path());
    // The build may lie in a home folder that is closed to others.
    let [tests, supervisor] = ["it", "astrago-supervise"].map(|name| home.path().join(name));
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    std::fs::copy(program(), &supervisor).unwrap();
    let result = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(tests)
        .env(PROGRAM, supervisor)
        .args([
            "--test-threads=2",
            "sandbox::",
            "shared::",
            "network::",
            "agent::",
            "reports::",
        ])
        .env("TMPDIR", home.path())
        .env("HOME", home.path())
        .current_dir("/")
        .output();
    let Ok(output) = result else {
        return skip("there is no setpriv to become another user with");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("hostile_reads_and_calls_are_refused ... ok"),
        "{text}"
    );
}

/// Processes of this pod that lie outside of its sandbox: its launcher and supervisor.
fn processes(pod: &Pod) -> Vec<i32> {
    let path = pod.dir.path().to_str().unwrap().to_owned();
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(|pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&path)
    })
    .collect()
}
