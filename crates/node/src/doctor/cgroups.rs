//! Whether CPU and memory of pods can be limited.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::fs::Access;

use super::Finding;

const REQUIREMENT: &str = "limits on CPU, memory and processes (cgroups)";
const WANTED: [&str; 3] = ["cpu", "memory", "pids"];

pub(super) fn check(is_root: bool) -> Finding {
    judge(is_root, &look())
}

/// What there is to work with.
enum Found {
    /// The unified hierarchy, and the controllers that our own group may hand on.
    Second {
        controllers: BTreeSet<String>,
        writable: bool,
    },
    /// One hierarchy per controller.
    First {
        writable: BTreeSet<String>,
    },
    Nothing,
}

fn look() -> Found {
    let root = Path::new("/sys/fs/cgroup");
    let is_writable = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
    if let Ok(text) = fs::read_to_string(root.join("cgroup.controllers")) {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = own
            .lines()
            .find_map(|line| line.strip_prefix("0::/"))
            .unwrap_or_default();
        let own = root.join(own);
        let text = fs::read_to_string(own.join("cgroup.controllers")).unwrap_or(text);
        let controllers = text.split_whitespace().map(str::to_owned).collect();
        return Found::Second {
            controllers,
            writable: is_writable(&own),
        };
    }
    let writable: BTreeSet<String> = WANTED
        .iter()
        .filter(|name| {
            let path = root.join(name);
            path.join("cgroup.procs").exists() && is_writable(&path)
        })
        .map(|name| (*name).to_owned())
        .collect();
    if root.join("cpu").exists() || !writable.is_empty() {
        return Found::First { writable };
    }
    Found::Nothing
}

fn judge(is_root: bool, found: &Found) -> Finding {
    let missing = |have: &BTreeSet<String>| {
        let missing: Vec<&str> = WANTED
            .into_iter()
            .filter(|name| !have.contains(*name))
            .collect();
        missing.join(", ")
    };
    match found {
        Found::Second {
            controllers,
            writable: true,
        } if missing(controllers).is_empty() => {
            Finding::ok(REQUIREMENT, "cgroup v2, delegated to this user")
        }
        Found::Second {
            controllers,
            writable: true,
        } => Finding::warn(
            REQUIREMENT,
            format!(
                "cgroup v2 without {}: these limits are not enforced",
                missing(controllers)
            ),
            "put \"Delegate=cpu memory pids\" into the [Service] section of \
             /etc/systemd/system/user@.service.d/delegate.conf, then log in again",
        ),
        Found::Second { .. } => Finding::warn(
            REQUIREMENT,
            "cgroup v2, but this user's group is not writable: limits are not enforced",
            "start it with: systemd-run --user --scope -p Delegate=yes astrago up",
        ),
        Found::First { writable } if missing(writable).is_empty() => {
            Finding::ok(REQUIREMENT, "cgroup v1")
        }
        Found::First { writable } => Finding::warn(
            REQUIREMENT,
            format!(
                "cgroup v1 without {}: these limits are not enforced",
                missing(writable)
            ),
            if is_root {
                "mount the missing controllers below /sys/fs/cgroup"
            } else {
                "run astrago as root, or boot with systemd.unified_cgroup_hierarchy=1"
            },
        ),
        Found::Nothing => Finding::warn(
            REQUIREMENT,
            "no cgroups are mounted: limits are not enforced",
            "mount -t cgroup2 none /sys/fs/cgroup",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_missing_is_named() {
        let all = Found::Second {
            controllers: set(&["cpu", "io", "memory", "pids"]),
            writable: true,
        };
        assert_eq!(judge(false, &all).level, Level::Ok);
        let some = Found::Second {
            controllers: set(&["memory", "pids"]),
            writable: true,
        };
        let finding = judge(false, &some);
        assert_eq!(finding.level, Level::Warn);
        assert!(finding.found.contains("without cpu:"), "{finding:?}");
        let not_ours = Found::Second {
            controllers: set(&["cpu", "memory", "pids"]),
            writable: false,
        };
        assert!(judge(false, &not_ours).fix.unwrap().contains("Delegate"));
        let first = Found::First {
            writable: set(&["cpu", "memory", "pids"]),
        };
        assert_eq!(judge(true, &first).found, "cgroup v1");
        let first = Found::First { writable: set(&[]) };
        assert!(judge(false, &first).fix.unwrap().contains("as root"));
        assert_eq!(judge(true, &Found::Nothing).level, Level::Warn);
    }
}
