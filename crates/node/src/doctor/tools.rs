//! Programs, files and devices around the kernel.

use std::env;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use super::Finding;
use crate::egress::resolvers::Resolvers;
use crate::egress::{self, Way, find_program};
use crate::gpu;
use crate::image::{Root, Source};
use crate::layout;

const GIB: u64 = 1 << 30;

pub(super) fn python(given: Option<&Path>) -> Finding {
    let requirement = "a Python environment for containers";
    match Root::host(given) {
        Ok(Root {
            source: Source::Host {
                python: Some(python),
            },
            ..
        }) => Finding::ok(
            requirement,
            format!("Python {} at {}", python.version, python.prefix.display()),
        ),
        Ok(_) => Finding::warn(
            requirement,
            "no python3 on PATH: only programs of the system can run",
            "install Python 3, activate an environment before astrago up, or use --python PATH",
        ),
        Err(error) => Finding::fail(
            requirement,
            error.to_string(),
            "activate a working environment, or name one with --python PATH",
        ),
    }
}

pub(super) fn git() -> Finding {
    let requirement = "git, for runtimes that clone a repository";
    match find_program("git") {
        Some(path) => Finding::ok(requirement, path.display().to_string()),
        None => Finding::warn(requirement, "not on PATH", "install git"),
    }
}

/// Users beyond one's own, for images whose files belong to several.
pub(super) fn identities(is_root: bool) -> Finding {
    let user = env::var("USER").unwrap_or_default();
    let uid = rustix::process::getuid().as_raw().to_string();
    let has_range =
        |path: &str| fs::read_to_string(path).is_ok_and(|text| has_range(&text, &user, &uid));
    let ranges = has_range("/etc/subuid") && has_range("/etc/subgid");
    let programs = find_program("newuidmap").is_some() && find_program("newgidmap").is_some();
    judge_identities(is_root, ranges, programs)
}

fn has_range(text: &str, user: &str, uid: &str) -> bool {
    text.lines().any(|line| {
        let mut fields = line.split(':');
        let who = fields.next().unwrap_or_default();
        let count = fields
            .nth(1)
            .and_then(|count| count.trim().parse::<u64>().ok());
        !who.is_empty() && (who == user || who == uid) && count.is_some_and(|count| count > 0)
    })
}

fn judge_identities(is_root: bool, ranges: bool, programs: bool) -> Finding {
    let requirement = "user IDs for containers";
    match (is_root, ranges, programs) {
        (true, ..) => Finding::ok(requirement, "all: astrago runs as root"),
        (_, true, true) => Finding::ok(requirement, "a range in /etc/subuid and /etc/subgid"),
        (_, false, _) => Finding::warn(
            requirement,
            "one: in a container every process is root, which is this user outside",
            "usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER",
        ),
        (_, true, false) => Finding::warn(
            requirement,
            "a range, but newuidmap and newgidmap are missing",
            "install the package uidmap (or shadow-utils)",
        ),
    }
}

/// The way out of pods, and whether they can look up names there.
pub(super) fn egress(is_root: bool, wanted: bool, named: &[Ipv4Addr]) -> Finding {
    let way = if wanted {
        egress::available(is_root)
    } else {
        Way::Off
    };
    if way == Way::Masquerade
        && let Some(table) = egress::host::selfish().first()
    {
        return Finding::warn(
            EGRESS,
            format!(
                "the rules of another node on this machine (table {table}) drop what comes back for pods"
            ),
            "end that node and all its pods, or start it again with this version",
        );
    }
    judge_egress(is_root, &way, &Resolvers::of_host(named).servers)
}

const EGRESS: &str = "network access from pods to the outside";

fn judge_egress(is_root: bool, way: &Way, servers: &[Ipv4Addr]) -> Finding {
    let requirement = EGRESS;
    let fix = |install: &str| format!("install {install}; until then bring data by volumes");
    match way {
        Way::Off => Finding::ok(requirement, way.describe()),
        Way::Missing { .. } if is_root => {
            Finding::warn(requirement, way.describe(), fix("the package nftables"))
        }
        Way::Missing { .. } => Finding::warn(
            requirement,
            way.describe(),
            fix("the packages passt and nftables, and let this user open /dev/net/tun")
                + " (chmod 0666, as most systems have it)",
        ),
        Way::Masquerade | Way::Pasta if servers.is_empty() => Finding::warn(
            requirement,
            format!(
                "{}, but no name server: this machine's own is on loopback or missing",
                way.describe()
            ),
            "name one that pods can reach with --dns ADDRESS",
        ),
        Way::Masquerade | Way::Pasta => Finding::ok(
            requirement,
            format!(
                "{} ({}); names by {}",
                way.describe(),
                way.name().to_lowercase(),
                list(servers)
            ),
        ),
    }
}

fn list(servers: &[Ipv4Addr]) -> String {
    let all: Vec<String> = servers.iter().map(ToString::to_string).collect();
    all.join(", ")
}

pub(super) fn disk_space(data_dir: &Path) -> Finding {
    // The folder may not have been made yet.
    let existing = data_dir
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(stat) => judge_disk_space(existing, stat.f_bavail.saturating_mul(stat.f_frsize)),
        Err(error) => Finding::fail(
            "disk space for the data folder",
            format!("{}: {error}", existing.display()),
            "choose another folder with --data-dir",
        ),
    }
}

fn judge_disk_space(path: &Path, free: u64) -> Finding {
    let requirement = "disk space for the data folder";
    let found = format!(
        "{} GiB free at {}; a pod that sets no limit may take {} GiB",
        free / GIB,
        path.display(),
        free / 2 / GIB
    );
    let fix = "free some space, or choose another folder with --data-dir";
    match free / GIB {
        0 => Finding::fail(requirement, found, fix),
        1..=9 => Finding::warn(requirement, found, fix),
        _ => Finding::ok(requirement, found),
    }
}

/// What the node could neither read nor remove.
pub(super) fn quarantine(data_dir: &Path) -> Finding {
    let requirement = "files that the node could not remove";
    let folder = layout::quarantine(data_dir);
    match fs::read_dir(&folder).map_or(0, Iterator::count) {
        0 => Finding::ok(requirement, "none"),
        count => Finding::warn(
            requirement,
            format!("{count} set aside in {}", folder.display()),
            "see what they are, and delete them",
        ),
    }
}

/// Volumes that no claim of this server's has.
pub(super) fn volumes(data_dir: &Path) -> Finding {
    let requirement = "a claim for every volume";
    let orphans = fs::read_to_string(layout::orphans(data_dir)).unwrap_or_default();
    let left: Vec<&str> = orphans
        .lines()
        .filter(|folder| Path::new(folder).exists())
        .collect();
    match left.first() {
        Some(first) => Finding::warn(
            requirement,
            format!("{} without, among them {first}", left.len()),
            "they are kept; delete them if nobody needs their files",
        ),
        None => Finding::ok(requirement, "every volume has one"),
    }
}

pub(super) fn gpus() -> Finding {
    let has_driver = Path::new("/proc/driver/nvidia/version").exists();
    let names: Vec<String> = gpu::inventory().into_iter().map(|gpu| gpu.name).collect();
    judge_gpus(has_driver, &names)
}

fn judge_gpus(has_driver: bool, names: &[String]) -> Finding {
    let requirement = "NVIDIA GPUs";
    match (names.len(), has_driver) {
        (0, true) => Finding::warn(
            requirement,
            "a driver, but no GPU that answers",
            "check nvidia-smi, and that this user may open /dev/nvidia*",
        ),
        (0, false) => Finding::ok(requirement, "none: jobs run on CPUs"),
        (count, _) => Finding::ok(requirement, format!("{count}: {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn a_range_of_users_belongs_to_somebody() {
        let text = "alice:100000:65536\n1001:165536:65536\nbob:1:0\n";
        assert!(has_range(text, "alice", "1000"));
        assert!(has_range(text, "carol", "1001"));
        assert!(!has_range(text, "bob", "1002"));
        assert!(!has_range(text, "", "1003"));
    }

    #[rstest::rstest]
    #[case::root(true, false, false, Level::Ok)]
    #[case::all_there(false, true, true, Level::Ok)]
    #[case::no_range(false, false, true, Level::Warn)]
    #[case::no_programs(false, true, false, Level::Warn)]
    fn identities_are_judged(
        #[case] is_root: bool,
        #[case] ranges: bool,
        #[case] programs: bool,
        #[case] want: Level,
    ) {
        assert_eq!(judge_identities(is_root, ranges, programs).level, want);
    }

    #[test]
    fn little_space_is_a_warning_and_none_a_failure() {
        let path = Path::new("/data");
        assert_eq!(judge_disk_space(path, 100 * GIB).level, Level::Ok);
        assert_eq!(judge_disk_space(path, 5 * GIB).level, Level::Warn);
        assert_eq!(judge_disk_space(path, GIB / 2).level, Level::Fail);
    }

    #[test]
    fn what_was_set_aside_and_what_is_nobodys_is_shown() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(quarantine(data.path()).level, Level::Ok);
        fs::create_dir_all(layout::quarantine(data.path()).join("pod.1")).unwrap();
        let found = quarantine(data.path());
        assert_eq!(found.level, Level::Warn);
        assert!(found.found.starts_with("1 set aside in "), "{found:?}");
        assert_eq!(volumes(data.path()).level, Level::Ok);
        let orphan = data.path().display().to_string();
        let noted = format!("{orphan}\n/nowhere/at/all\n");
        fs::write(layout::orphans(data.path()), noted).unwrap();
        let want = format!("1 without, among them {orphan}");
        assert_eq!(volumes(data.path()).found, want);
    }

    #[test]
    fn a_driver_without_a_gpu_is_odd() {
        assert_eq!(judge_gpus(true, &[]).level, Level::Warn);
        assert_eq!(judge_gpus(false, &[]).level, Level::Ok);
        assert_eq!(judge_gpus(true, &["A100".to_owned()]).found, "1: A100");
    }

    #[test]
    fn a_missing_way_out_names_the_package() {
        let missing = Way::Missing {
            reason: "no".to_owned(),
        };
        let fix = |finding: Finding| finding.fix.unwrap();
        assert!(fix(judge_egress(true, &missing, &[])).contains("nftables"));
        assert!(fix(judge_egress(false, &missing, &[])).contains("passt"));
        assert!(fix(judge_egress(true, &Way::Masquerade, &[])).contains("--dns"));
        let server = [Ipv4Addr::new(192, 0, 2, 53)];
        assert_eq!(judge_egress(false, &Way::Pasta, &server).level, Level::Ok);
        assert_eq!(judge_egress(false, &Way::Off, &[]).level, Level::Ok);
    }
}
