//! Which user ids a container's ids are outside of it.

use std::io;
use std::path::Path;

use nix::unistd::Pid;

use crate::spec::ContainerSpec;

/// First of the ids that containers of a node with all rights use, above those that distributions
/// and container tools hand out.
const FIRST: u32 = 0x7001_0000;
/// How many of them.
pub(crate) const COUNT: u32 = 0x1_0000;
/// Whom files belong to that belong to no known user.
const NOBODY: u32 = 65534;

/// The mapping between ids in a container and ids in the setup user namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Ids 0 to 65535 in the container, each with its own id outside.
    Range,
    /// A single id, which is root in the setup namespace.
    Single { user: u32, group: u32 },
}

impl Identity {
    /// A whole range where the setup namespace has one to give, a single id otherwise.
    pub(crate) fn choose(container: &ContainerSpec) -> Self {
        if Self::has_range() {
            Self::Range
        } else {
            Self::Single {
                user: container.user,
                group: container.group,
            }
        }
    }

    /// Whether the setup namespace has a range of ids to give, and this process the right to do so:
    /// the agent of an ordinary user is in the machine's own namespace, too, but is not its root.
    pub(crate) fn has_range() -> bool {
        nix::unistd::geteuid().is_root()
            && ["/proc/self/uid_map", "/proc/self/gid_map"]
                .iter()
                .all(|path| {
                    std::fs::read_to_string(path).is_ok_and(|map| covers(&map, FIRST, COUNT))
                })
    }

    /// The id outside that is `id` inside.
    pub(crate) fn outside(self, id: u32) -> u32 {
        match self {
            Self::Range => FIRST + id.min(COUNT - 1),
            Self::Single { .. } => 0,
        }
    }

    /// Gives the namespace of a freshly cloned process its ids.
    pub(crate) fn apply(self, process: Pid) -> io::Result<()> {
        let (users, groups) = match self {
            Self::Range => {
                let map = format!("0 {FIRST} {COUNT}\n");
                (map.clone(), map)
            }
            Self::Single { user, group } => (format!("{user} 0 1\n"), format!("{group} 0 1\n")),
        };
        write(process, &users, &groups)
    }
}

/// Leaves most of what the machine gives one user for watching files to others; for a process with all
/// rights in a user namespace of its own. Containers of all pods are the same user to the machine.
pub(crate) fn share_watches() {
    for (whole, own) in [
        ("max_user_instances", "max_inotify_instances"),
        ("max_user_watches", "max_inotify_watches"),
    ] {
        let whole = std::fs::read_to_string(format!("/proc/sys/fs/inotify/{whole}"));
        // Where there is no such limit, nothing is to be shared.
        if let Some(whole) = whole.ok().and_then(|text| text.trim().parse::<u32>().ok()) {
            let _ = std::fs::write(format!("/proc/sys/user/{own}"), (whole / 8).to_string());
        }
    }
}

/// Gives the namespace of a process the ids for a mount of a host folder: the container's user and group,
/// `inside`, stand for its `owner`, and everybody else for themselves. They never stand for root: a
/// program with the setuid bit in such a folder would make anybody on the machine its root.
pub(crate) fn lend(process: Pid, inside: (u32, u32), owner: (u32, u32)) -> io::Result<()> {
    write(process, &lent(inside.0, owner.0), &lent(inside.1, owner.1))
}

fn lent(inside: u32, owner: u32) -> String {
    let own = FIRST + inside.min(COUNT - 1);
    // Not a user or group of the system either, some of which are as good as root.
    let is_a_person = (1000..FIRST).contains(&owner) && owner != NOBODY;
    let parts = if is_a_person {
        vec![
            (0, 0, owner),
            (owner, own, 1),
            (owner + 1, owner + 1, own - owner - 1),
            (own, owner, 1),
            (own + 1, own + 1, u32::MAX - own - 1),
        ]
    } else {
        vec![(0, 0, u32::MAX)]
    };
    let line = |(disk, seen, count): &(u32, u32, u32)| format!("{disk} {seen} {count}\n");
    parts.iter().map(line).collect()
}

fn write(process: Pid, users: &str, groups: &str) -> io::Result<()> {
    let directory = format!("/proc/{process}");
    let directory = Path::new(&directory);
    std::fs::write(directory.join("uid_map"), users)?;
    std::fs::write(directory.join("gid_map"), groups)
}

/// An id that a pod names in `field`, if it is one of those that containers have.
pub(crate) fn given(field: &str, id: Option<i64>) -> Result<Option<u32>, String> {
    let Some(id) = id else { return Ok(None) };
    let known = u32::try_from(id).ok().filter(|id| *id < COUNT);
    known.map(Some).ok_or_else(|| {
        format!(
            "{field} is {id}, and containers of this node have the ids from 0 to {} only",
            COUNT - 1
        )
    })
}

/// The owner that files of containers' root have outside, for those that make volumes.
pub(crate) fn volume_owner(group: Option<u32>) -> Option<(u32, u32)> {
    Identity::has_range().then(|| {
        (
            Identity::Range.outside(0),
            Identity::Range.outside(group.unwrap_or(0)),
        )
    })
}

fn covers(map: &str, first: u32, count: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(inside)), _, Some(Ok(length))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        inside <= u64::from(first) && inside + length >= u64::from(first) + u64::from(count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_folder_is_lent_to_the_containers_user_unless_it_is_the_systems() {
        for system in [0, 6, 999, NOBODY, FIRST] {
            assert_eq!(lent(0, system), "0 0 4294967295\n", "{system}");
        }
        let want = "0 0 1000\n1000 1879113733 1\n1001 1001 1879112732\n\
            1879113733 1000 1\n1879113734 1879113734 2415853561\n";
        assert_eq!(lent(5, 1000), want);
    }

    #[test]
    fn only_a_namespace_with_all_ids_has_a_range_to_give() {
        assert!(covers("         0          0 4294967295\n", FIRST, COUNT));
        assert!(!covers("         0       1000          1\n", FIRST, COUNT));
        assert!(!covers("0 100000 65536\n", FIRST, COUNT));
        assert!(!covers("", FIRST, COUNT));
    }

    #[test]
    fn an_id_that_containers_have_not_is_refused_and_never_becomes_roots() {
        let last = i64::from(COUNT) - 1;
        for id in [0, 1000, last] {
            assert_eq!(
                given("runAsUser", Some(id)).unwrap(),
                u32::try_from(id).ok()
            );
        }
        assert_eq!(given("runAsUser", None).unwrap(), None);
        for id in [-1, last + 1, 1 << 31, 1 << 32, i64::MIN, i64::MAX] {
            let text = given("runAsUser", Some(id)).unwrap_err();
            assert!(
                text.contains("runAsUser") && text.contains(&id.to_string()),
                "{text}"
            );
        }
    }
}
