//! Which capabilities a container keeps, in its own user namespace.

use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use crate::spec::ContainerSpec;

/// What container images expect of root, and what is harmless in a user namespace of its own. No
/// right over mounts, networks, modules, tracing or the clock is among them.
const USUAL: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT);

/// What a pod may ask for on top.
const ALLOWED: CapabilitySet = USUAL
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_PTRACE);

/// The set for a container: `drop` is applied first, then `add`, as Kubernetes has it.
pub(crate) fn of(container: &ContainerSpec) -> CapabilitySet {
    let mut set = USUAL;
    for name in &container.capabilities_drop {
        set = set.difference(named(name));
    }
    for name in &container.capabilities_add {
        set = set.union(named(name).intersection(ALLOWED));
    }
    set
}

/// Takes everything but `keep` from this process and what it will execute.
///
/// The bounding set must go while `SETPCAP` is still there, the others after the user id has been
/// changed; so this comes in two halves.
pub(crate) fn bound(keep: CapabilitySet) -> rustix::io::Result<()> {
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if keep.contains(capability) {
            continue;
        }
        match remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // The kernel knows no more capabilities than these.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The second half: what the process itself may do until and after it executes a program.
pub(crate) fn limit(keep: CapabilitySet) -> rustix::io::Result<()> {
    clear_ambient_capability_set()?;
    let current = rustix::thread::capabilities(None)?;
    set_capabilities(
        None,
        CapabilitySets {
            effective: current.effective.intersection(keep),
            permitted: current.permitted.intersection(keep),
            inheritable: CapabilitySet::empty(),
        },
    )
}

fn named(name: &str) -> CapabilitySet {
    let name = name.to_ascii_uppercase();
    let name = name.strip_prefix("CAP_").unwrap_or(&name);
    if name == "ALL" {
        return CapabilitySet::from_bits_retain(u64::MAX);
    }
    CapabilitySet::from_name(name).unwrap_or(CapabilitySet::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(add: &[&str], drop: &[&str]) -> ContainerSpec {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ContainerSpec {
            capabilities_add: owned(add),
            capabilities_drop: owned(drop),
            ..ContainerSpec::default()
        }
    }

    #[test]
    fn what_is_dangerous_cannot_be_added() {
        let set = of(&container(&["SYS_ADMIN", "CAP_NET_ADMIN", "IPC_LOCK"], &[]));
        assert_eq!(set, USUAL.union(CapabilitySet::IPC_LOCK));
        assert_eq!(of(&container(&["ALL"], &[])), ALLOWED);
    }

    #[test]
    fn all_can_be_dropped_and_one_kept() {
        let set = of(&container(&["NET_BIND_SERVICE"], &["ALL"]));
        assert_eq!(set, CapabilitySet::NET_BIND_SERVICE);
        assert!(of(&container(&[], &["all"])).is_empty());
    }
}
