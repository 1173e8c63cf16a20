//! The host's mounts, as a pod's supervisor keeps them.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// Follows the host in what it unmounts, and lets go at once of what none of these paths is on or has
/// below it: a disk of which a copy of the mount is left anywhere cannot be taken out.
pub(crate) fn release(needed: &[PathBuf]) -> io::Result<()> {
    let follow = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(None::<&str>, "/", None::<&str>, follow, None::<&str>)?;
    let needed: Vec<PathBuf> = needed
        .iter()
        .flat_map(|path| [Some(path.clone()), std::fs::canonicalize(path).ok()])
        .flatten()
        .collect();
    let text = std::fs::read_to_string("/proc/self/mountinfo")?;
    // Those that lie in others come after them.
    for point in text.lines().rev().filter_map(mount_point) {
        if !is_needed(&point, &needed) {
            // An ordinary user may not, and follows the host where that says so.
            let _ = umount2(&point, MntFlags::MNT_DETACH);
        }
    }
    Ok(())
}

fn is_needed(point: &Path, needed: &[PathBuf]) -> bool {
    needed
        .iter()
        .any(|path| path.starts_with(point) || point.starts_with(path))
}

/// The mount point in a line of `mountinfo`, in which spaces and the like are octal.
fn mount_point(line: &str) -> Option<PathBuf> {
    let field = line.split(' ').nth(4)?.as_bytes();
    let mut bytes = Vec::new();
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_others_are_let_go() {
        let line = r"41 28 0:35 / /media/my\040disk rw,relatime shared:2 - vfat /dev/sdb1 rw";
        assert_eq!(mount_point(line).unwrap(), Path::new("/media/my disk"));
        let needed = ["/data/pods/a", "/usr"].map(PathBuf::from);
        for (point, want) in [
            ("/", true),
            ("/data", true),
            ("/usr/local", true),
            ("/media/my disk", false),
            ("/dataset", false),
        ] {
            assert_eq!(is_needed(Path::new(point), &needed), want, "{point}");
        }
    }
}
