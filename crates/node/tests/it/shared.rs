//! What containers share without knowing it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::support::Bench;

/// Everything below a folder, with its mode.
fn everything_below(folder: &Path) -> BTreeMap<PathBuf, u32> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let metadata = entry.path().symlink_metadata().unwrap();
            found.insert(entry.path(), metadata.mode());
            if metadata.is_dir() {
                left.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn what_all_containers_begin_with_is_changed_by_none() {
    let Some(bench) = Bench::new() else { return };
    let script = "ls -ld /tmp /var/* /root | cut -c1-10 | tr '\n' ' '";
    let (_, first) = bench.run("first", script);
    let shared = bench.data.path().join("skeletons");
    let before = everything_below(&shared);
    assert!(!before.is_empty());
    let (end, log) = bench.run(
        "changes",
        "set -e; echo x > /var/lib/made; chmod 777 /root /var/log; rmdir /var/cache; mv /var/log /var/moved; mkdir -p /usr/local/lib/made; \
        rm -r /var/lib; ln -s /etc /var/lib; setfattr -n user.overlay.opaque -v y /tmp 2>/dev/null || true; \
        for f in $(grep -o 'lowerdir=[^,]*' /proc/self/mountinfo | cut -d= -f2 | tr ':' ' '); do case $f in */skeletons/*) ! touch $f/made 2>/dev/null;; esac; done; echo done",
    );
    assert_eq!((end.exit_code, log.as_str()), (0, "done\n"));
    assert_eq!(everything_below(&shared), before);
    assert_eq!(bench.run("last", script).1, first);
}
