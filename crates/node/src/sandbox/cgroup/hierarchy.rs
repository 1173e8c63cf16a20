//! One mounted cgroup hierarchy, and how its version says things.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::control::Usage;
use crate::spec::Limits;

/// Microseconds over which CPU time is shared out.
const PERIOD: u64 = 100_000;
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

/// A hierarchy in which pods can have cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    unified: bool,
    controllers: Vec<String>,
    mount: PathBuf,
    base: PathBuf,
}

/// All hierarchies with a controller that pods use.
pub(super) fn found() -> Vec<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let privileged = nix::unistd::geteuid().is_root();
    let mut all = parse(&mounts, &own, privileged);
    for hierarchy in all.iter_mut().filter(|hierarchy| hierarchy.unified) {
        let offered = hierarchy
            .base
            .parent()
            .map(|above| above.join("cgroup.controllers"));
        let offered = offered
            .and_then(|path| fs::read_to_string(path).ok())
            .unwrap_or_default();
        hierarchy.controllers = offered.split_whitespace().map(str::to_owned).collect();
    }
    all.retain(|hierarchy| {
        hierarchy
            .controllers
            .iter()
            .any(|name| CONTROLLERS.contains(&name.as_str()) || name == "cpuacct")
    });
    all
}

/// How many processes and threads all pods of this machine may have together.
pub(crate) fn pods_share() -> u64 {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let most = [read("pid_max"), read("threads-max")];
    most.into_iter().flatten().min().unwrap_or(32768) / 4 * 3
}

/// Reads `mountinfo` and `cgroup` of a process.
fn parse(mounts: &str, own: &str, privileged: bool) -> Vec<Hierarchy> {
    let mut all = Vec::new();
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut after = after.split(' ');
        let kind = after.next().unwrap_or_default();
        let options = after.nth(1).unwrap_or_default();
        let Some(mount) = before.split(' ').nth(4).map(PathBuf::from) else {
            continue;
        };
        match kind {
            "cgroup2" => {
                let mine = own
                    .lines()
                    .find_map(|line| line.strip_prefix("0::/"))
                    .unwrap_or_default();
                let beside = mount.join(mine);
                // Root has the whole hierarchy; others what surrounds their own cgroup, if anything.
                let above = if privileged {
                    mount.clone()
                } else {
                    beside.parent().unwrap_or(&mount).to_owned()
                };
                all.push(Hierarchy {
                    unified: true,
                    controllers: Vec::new(),
                    base: above.join("astrago"),
                    mount,
                });
            }
            "cgroup" if privileged => {
                let controllers = options.split(',').map(str::to_owned).collect();
                all.push(Hierarchy {
                    unified: false,
                    controllers,
                    base: mount.join("astrago"),
                    mount,
                });
            }
            _ => {}
        }
    }
    all
}

impl Hierarchy {
    /// The folder above all pods.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    pub(super) fn mount(&self) -> &Path {
        &self.mount
    }

    pub(super) fn is_unified(&self) -> bool {
        self.unified
    }

    pub(super) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }

    /// Makes a pod's folder; in the unified hierarchy, with the controllers switched on down to it.
    pub(super) fn prepare(&self, pod: &Path) -> io::Result<()> {
        let first = super::make(&self.base)?;
        super::make(pod)?;
        if self.unified {
            let wanted: Vec<_> = CONTROLLERS
                .iter()
                .filter(|name| self.has(name))
                .map(|name| format!("+{name}"))
                .collect();
            let wanted = wanted.join(" ");
            let switch = |folder: &Path| fs::write(folder.join("cgroup.subtree_control"), &wanted);
            // An earlier pod has switched them on above, unless somebody switched them off again.
            if first || switch(pod).is_err() {
                if let Some(above) = self.base.parent() {
                    // Usually switched on already by whoever owns it.
                    let _ = switch(above);
                }
                switch(&self.base)?;
                switch(pod)?;
            }
        }
        if first && self.has("pids") {
            // Each container has a limit of its own; together they leave some for the machine.
            let _ = fs::write(self.base.join("pids.max"), pods_share().to_string());
        }
        Ok(())
    }

    /// The files to write for these limits.
    pub(super) fn settings(&self, limits: &Limits) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut set = |controller: &str, file: &str, value: String| {
            if self.has(controller) {
                all.push((file.to_owned(), value));
            }
        };
        // A thousandth of a CPU is a thousandth of the period; the kernel takes no less than 1 ms.
        let quota = limits
            .cpu_limit
            .map(|millis| (millis * PERIOD / 1000).max(1000));
        let shares = limits
            .cpu_request
            .map(|millis| (millis * 1024 / 1000).clamp(2, 262_144));
        if self.unified {
            if let Some(quota) = quota {
                set("cpu", "cpu.max", format!("{quota} {PERIOD}"));
            }
            if let Some(shares) = shares {
                set(
                    "cpu",
                    "cpu.weight",
                    (1 + (shares - 2) * 9999 / 262_142).to_string(),
                );
            }
            if let Some(memory) = limits.memory {
                set("memory", "memory.max", memory.to_string());
                set("memory", "memory.swap.max", "0".to_owned());
                set("memory", "memory.oom.group", "1".to_owned());
            }
        } else {
            if let Some(quota) = quota {
                set("cpu", "cpu.cfs_period_us", PERIOD.to_string());
                set("cpu", "cpu.cfs_quota_us", quota.to_string());
            }
            if let Some(shares) = shares {
                set("cpu", "cpu.shares", shares.to_string());
            }
            if let Some(memory) = limits.memory {
                set("memory", "memory.limit_in_bytes", memory.to_string());
                set("memory", "memory.memsw.limit_in_bytes", memory.to_string());
            }
        }
        if let Some(pids) = limits.pids {
            set("pids", "pids.max", pids.to_string());
        }
        all
    }

    pub(super) fn out_of_memory_kills(&self, group: &Path) -> Option<u64> {
        if !self.has("memory") {
            return None;
        }
        let file = if self.unified {
            "memory.events"
        } else {
            "memory.oom_control"
        };
        keyed(&fs::read_to_string(group.join(file)).ok()?, "oom_kill")
    }

    pub(super) fn read_usage(&self, group: &Path, usage: &mut Usage) {
        let number = |file: &str| {
            fs::read_to_string(group.join(file))
                .ok()?
                .trim()
                .parse::<u64>()
                .ok()
        };
        let of = |file: &str, key: &str| keyed(&fs::read_to_string(group.join(file)).ok()?, key);
        let (memory, limit, inactive, cpu) = if self.unified {
            let cpu = of("cpu.stat", "usage_usec").map(|micros| micros * 1000);
            (
                number("memory.current"),
                number("memory.max"),
                of("memory.stat", "inactive_file"),
                cpu,
            )
        } else {
            let limit = number("memory.limit_in_bytes").filter(|&limit| limit < 1 << 60);
            (
                number("memory.usage_in_bytes"),
                limit,
                of("memory.stat", "total_inactive_file"),
                number("cpuacct.usage"),
            )
        };
        if let Some(memory) = memory {
            usage.working_set_bytes = Some(memory.saturating_sub(inactive.unwrap_or(0)));
            usage.memory_limit_bytes = limit;
        }
        usage.cpu_nanoseconds = cpu.or(usage.cpu_nanoseconds);
        usage.processes = number("pids.current").or(usage.processes);
    }
}

/// The number after a key, one pair per line.
fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
30 25 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
32 25 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd";
    const V2: &str =
        "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";

    fn limits() -> Limits {
        Limits {
            cpu_limit: Some(500),
            cpu_request: Some(250),
            memory: Some(1 << 20),
            pids: Some(64),
        }
    }

    #[test]
    fn root_gets_the_whole_hierarchy_and_others_what_surrounds_them() {
        let own = "0::/user.slice/app.slice/run-1.service\n";
        let base = |privileged| parse(V2, own, privileged)[0].base.clone();
        assert_eq!(base(true), Path::new("/sys/fs/cgroup/astrago"));
        assert_eq!(
            base(false),
            Path::new("/sys/fs/cgroup/user.slice/app.slice/astrago")
        );
        assert!(parse(V1, own, false).is_empty());
    }

    #[test]
    fn both_versions_get_the_same_limits_in_their_own_words() {
        let old = parse(V1, "", true);
        assert!(
            old[0]
                .settings(&limits())
                .contains(&("memory.limit_in_bytes".into(), "1048576".into()))
        );
        assert!(
            old[1]
                .settings(&limits())
                .contains(&("cpu.cfs_quota_us".into(), "50000".into()))
        );
        assert!(
            old[1]
                .settings(&limits())
                .contains(&("cpu.shares".into(), "256".into()))
        );
        let mut new = parse(V2, "0::/", true).remove(0);
        new.controllers = CONTROLLERS.map(str::to_owned).to_vec();
        let want = [
            ("cpu.max", "50000 100000"),
            ("cpu.weight", "10"),
            ("memory.max", "1048576"),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "1"),
            ("pids.max", "64"),
        ];
        let want = want.map(|(file, value)| (file.to_owned(), value.to_owned()));
        assert_eq!(new.settings(&limits()), want);
    }

    #[test]
    fn a_killed_process_is_counted_in_both_versions() {
        assert_eq!(
            keyed("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\n", "oom_kill"),
            Some(2)
        );
        assert_eq!(
            keyed("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "oom_kill"),
            Some(1)
        );
    }

    /// The second version as an ordinary user sees it under systemd, made of plain files.
    #[test]
    fn a_delegated_tree_of_the_second_version_is_used_beside_ones_own_cgroup() {
        let tree = tempfile::tempdir().unwrap();
        let slice = tree.path().join("user.slice/app.slice");
        fs::create_dir_all(slice.join("run-1.scope")).unwrap();
        fs::write(slice.join("cgroup.controllers"), "cpu io memory pids\n").unwrap();
        let mounts = V2.replace("/sys/fs/cgroup", tree.path().to_str().unwrap());
        let mut hierarchy =
            parse(&mounts, "0::/user.slice/app.slice/run-1.scope\n", false).remove(0);
        assert_eq!(hierarchy.base(), slice.join("astrago"));
        hierarchy.controllers = CONTROLLERS.map(str::to_owned).to_vec();

        let pod = hierarchy.base().join("uid");
        hierarchy.prepare(&pod).unwrap();
        for folder in [&slice, &slice.join("astrago"), &pod] {
            let switched = fs::read_to_string(folder.join("cgroup.subtree_control")).unwrap();
            assert_eq!(switched, "+cpu +memory +pids", "{}", folder.display());
        }

        for (file, text) in [
            ("memory.current", "1000\n"),
            ("memory.max", "max\n"),
            ("memory.stat", "anon 1\ninactive_file 400\n"),
            ("memory.events", "oom 1\noom_kill 1\n"),
            ("cpu.stat", "usage_usec 7\nuser_usec 5\n"),
            ("pids.current", "3\n"),
        ] {
            fs::write(pod.join(file), text).unwrap();
        }
        let mut usage = Usage::default();
        hierarchy.read_usage(&pod, &mut usage);
        let want = Usage {
            cpu_nanoseconds: Some(7000),
            working_set_bytes: Some(600),
            memory_limit_bytes: None,
            processes: Some(3),
        };
        assert_eq!(usage, want);
        assert_eq!(hierarchy.out_of_memory_kills(&pod), Some(1));
    }
}
