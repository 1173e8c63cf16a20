//! What is in the root folder of every container with the host's system.

use std::fs;
use std::path::{Path, PathBuf};

use super::SYSTEM;

/// Folders that programs expect, with their modes.
pub(super) const FOLDERS: &[(&str, u32)] = &[
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/tmp", 0o1777),
    ("proc", 0o755),
    ("sys", 0o755),
    ("dev", 0o755),
    ("run", 0o755),
    ("home", 0o755),
    ("var/log", 0o755),
    ("var/cache", 0o755),
    ("var/lib", 0o755),
    ("root", 0o700),
];

/// Something that containers begin with, by its path below their root.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Made {
    Folder(PathBuf, u32),
    Link(PathBuf, PathBuf),
}

/// What is in the root folder of every container with the host's system: what programs expect, and places for the
/// host's folders and for those of Python. What a pod mounts besides is not among it: there is no end to what that can be.
pub(super) fn beginning(read_only: &[PathBuf]) -> Vec<Made> {
    let mut all: Vec<Made> = FOLDERS
        .iter()
        .map(|(path, mode)| Made::Folder(path.into(), *mode))
        .collect();
    for name in SYSTEM {
        let host = Path::new("/").join(name);
        if let Ok(to) = fs::read_link(&host) {
            all.push(Made::Link(name.into(), to));
        } else if host.is_dir() {
            all.push(Made::Folder(name.into(), 0o755));
        }
    }
    for path in read_only.iter().filter(|path| !is_covered(path)) {
        let below = path.strip_prefix("/").unwrap_or(path);
        let mut above: Vec<&Path> = below.ancestors().collect();
        above.reverse();
        for folder in above {
            let is_new = |made: &Made| !matches!(made, Made::Folder(known, _) if known == folder);
            if folder != Path::new("") && all.iter().all(is_new) {
                all.push(Made::Folder(folder.to_owned(), 0o755));
            }
        }
    }
    all
}

/// Whether a folder of Python's is shown with one of the host's system.
pub(super) fn is_covered(path: &Path) -> bool {
    SYSTEM
        .iter()
        .any(|name| path.starts_with(Path::new("/").join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_place_for_python_wherever_it_lies_outside_of_the_system() {
        let all = beginning(&["/root/.pyenv/3".into(), "/usr/lib/python3".into()]);
        let folders = |above: &str| -> Vec<(String, u32)> {
            let found = all.iter().filter_map(|made| match made {
                Made::Folder(path, mode) if path.starts_with(above) => {
                    Some((path.display().to_string(), *mode))
                }
                _ => None,
            });
            found.collect()
        };
        let want = [
            ("root", 0o700),
            ("root/.pyenv", 0o755),
            ("root/.pyenv/3", 0o755),
        ];
        assert_eq!(
            folders("root"),
            want.map(|(path, mode)| (path.to_owned(), mode))
        );
        assert_eq!(folders("usr"), [("usr".to_owned(), 0o755)]);
    }
}
