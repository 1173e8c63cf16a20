//! What the kernel offers.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::Finding;
use crate::launch::Bridges;

/// Overlays in user namespaces came with this one.
const OLDEST: (u32, u32) = (5, 11);

pub(super) fn version() -> Finding {
    let name = rustix::system::uname();
    judge_version(&name.release().to_string_lossy())
}

fn judge_version(release: &str) -> Finding {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    let requirement = "Linux 5.11 or newer";
    match (next(), next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Finding::ok(requirement, release),
        _ => Finding::fail(requirement, release, "update the system's kernel"),
    }
}

/// The switches by which distributions forbid user namespaces.
pub(super) fn user_namespaces() -> Finding {
    let read = |name: &str| {
        fs::read_to_string(Path::new("/proc/sys").join(name))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    judge_user_namespaces(
        rustix::process::geteuid().is_root(),
        read("user/max_user_namespaces"),
        read("kernel/unprivileged_userns_clone"),
        read("kernel/apparmor_restrict_unprivileged_userns"),
    )
}

fn judge_user_namespaces(
    is_root: bool,
    most: Option<u64>,
    debian: Option<u64>,
    apparmor: Option<u64>,
) -> Finding {
    let requirement = "user namespaces";
    match (most, debian, apparmor) {
        (None, ..) => Finding::fail(
            requirement,
            "the kernel has none",
            "use a kernel that was built with CONFIG_USER_NS",
        ),
        (Some(0), ..) => Finding::fail(
            requirement,
            "user.max_user_namespaces is 0",
            "sysctl -w user.max_user_namespaces=15000",
        ),
        (_, Some(0), _) if !is_root => Finding::fail(
            requirement,
            "kernel.unprivileged_userns_clone is 0",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (_, _, Some(1)) if !is_root => Finding::fail(
            requirement,
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, \
             or an AppArmor profile that allows userns for this program",
        ),
        (Some(most), ..) => Finding::ok(requirement, format!("allowed, up to {most}")),
    }
}

/// Makes the namespaces in which pods meet, for a moment.
pub(super) fn sandboxes(supervisor: &Path) -> Finding {
    let requirement = "network and mount namespaces";
    match Bridges::obtain(supervisor, []) {
        Ok(_) => Finding::ok(requirement, "tried, and works"),
        Err(error) => {
            let fix = "allow user namespaces; in a container, run it with \
                       --security-opt seccomp=unconfined or --privileged";
            Finding::fail(requirement, astrago_net::chain(&error), fix)
        }
    }
}

pub(super) fn overlay() -> Finding {
    let known = fs::read_to_string("/proc/filesystems")
        .is_ok_and(|text| text.split_whitespace().any(|word| word == "overlay"));
    judge_overlay(known, try_overlay())
}

/// Mounts one in namespaces of its own; `None` if there is no program to do it with.
fn try_overlay() -> Option<bool> {
    let script = "t=$(mktemp -d) && mount -t tmpfs none $t && cd $t && mkdir l u w m && \
                  mount -t overlay -o userxattr,lowerdir=l,upperdir=u,workdir=w none m";
    let done = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg(format!(
            "{script}; s=$?; cd /; umount -l $t && rmdir $t; exit $s"
        ))
        .stdin(Stdio::null())
        .output();
    done.ok().map(|output| output.status.success())
}

fn judge_overlay(known: bool, tried: Option<bool>) -> Finding {
    let requirement = "overlayfs in user namespaces";
    match (known, tried) {
        (_, Some(true)) => Finding::ok(requirement, "tried, and works"),
        (true, None) => Finding::ok(requirement, "the kernel has it (not tried: no unshare)"),
        (true, Some(false)) => Finding::fail(
            requirement,
            "the kernel has overlayfs but refuses it in a user namespace",
            "use Linux 5.11 or newer, and keep the data folder on ext4, XFS or btrfs",
        ),
        (false, _) => Finding::fail(requirement, "not in the kernel", "modprobe overlay"),
    }
}

pub(super) fn seccomp() -> Finding {
    judge_seccomp(
        fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
            .ok()
            .as_deref(),
    )
}

fn judge_seccomp(actions: Option<&str>) -> Finding {
    let requirement = "seccomp filters";
    match actions {
        Some(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            Finding::ok(requirement, "available")
        }
        _ => Finding::fail(
            requirement,
            "the kernel has none",
            "use a kernel that was built with CONFIG_SECCOMP_FILTER",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[rstest::rstest]
    #[case("6.18.1-generic", Level::Ok)]
    #[case("5.11", Level::Ok)]
    #[case("5.10.0-28-amd64", Level::Fail)]
    #[case("4.18.0-553.el8", Level::Fail)]
    #[case("unknown", Level::Fail)]
    fn old_kernels_are_told(#[case] release: &str, #[case] want: Level) {
        assert_eq!(judge_version(release).level, want);
    }

    #[rstest::rstest]
    #[case::plain(false, Some(1000), None, None, Level::Ok)]
    #[case::off(false, Some(0), None, None, Level::Fail)]
    #[case::old_debian(false, Some(1000), Some(0), None, Level::Fail)]
    #[case::ubuntu(false, Some(1000), None, Some(1), Level::Fail)]
    #[case::ubuntu_as_root(true, Some(1000), Some(0), Some(1), Level::Ok)]
    #[case::not_built_in(true, None, None, None, Level::Fail)]
    fn the_switches_of_distributions_are_known(
        #[case] is_root: bool,
        #[case] most: Option<u64>,
        #[case] debian: Option<u64>,
        #[case] apparmor: Option<u64>,
        #[case] want: Level,
    ) {
        assert_eq!(
            judge_user_namespaces(is_root, most, debian, apparmor).level,
            want
        );
    }

    #[test]
    fn overlayfs_must_work_and_not_only_exist() {
        assert_eq!(judge_overlay(true, Some(true)).level, Level::Ok);
        assert_eq!(judge_overlay(true, None).level, Level::Ok);
        assert_eq!(judge_overlay(true, Some(false)).level, Level::Fail);
        assert_eq!(
            judge_overlay(false, None).fix.as_deref(),
            Some("modprobe overlay")
        );
        assert_eq!(
            judge_seccomp(Some("kill_process errno allow")).level,
            Level::Ok
        );
        assert_eq!(judge_seccomp(None).level, Level::Fail);
    }
}
