//! A folder of code as a snapshot: what `astrago run FOLDER` sends.
//!
//! The files are those on the disk, committed or not, except what `.gitignore` names. A link that stays
//! within the folder becomes what it leads to; one that leads out of it is left out, for what is out
//! there was not handed over.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use astrago_rest::snapshot::{self, Digest, Listing};
use ignore::{DirEntry, WalkBuilder};

use crate::exit::Failure;

/// Never code, whatever `.gitignore` says: version control's own files and what Python leaves behind.
const NEVER: [&str; 5] = [".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints"];

/// Scripts that are started when nobody says which, the first that is there.
pub(crate) const ENTRIES: [&str; 2] = ["train.py", "main.py"];

pub(crate) struct Folder {
    path: PathBuf,
    files: BTreeMap<String, (bool, Vec<u8>)>,
    listing: Listing,
    /// What was left out that the user may miss, with the reason.
    pub(crate) left_out: Vec<String>,
}

impl Folder {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let root = path
            .canonicalize()
            .with_context(|| Failure::unreadable(path))?;
        let mut folder = Self {
            path: path.to_owned(),
            files: BTreeMap::new(),
            listing: Listing::default(),
            left_out: Vec::new(),
        };
        let inside = root.clone();
        let walk = WalkBuilder::new(&root)
            .standard_filters(false)
            .parents(true)
            .git_ignore(true)
            .git_exclude(true)
            .git_global(true)
            .require_git(false)
            .follow_links(true)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(move |entry| wanted(entry, &inside))
            .build();
        for entry in walk {
            match entry {
                Ok(entry) => folder.take(&root, &entry)?,
                // A link to nowhere, or one that goes round in circles.
                Err(error) => folder.left_out.push(error.to_string()),
            }
        }
        if folder.files.is_empty() {
            let failure = Failure::theirs(format!("there is no code in {}", path.display()));
            return Err(failure
                .hint("is everything in it named by .gitignore?")
                .into());
        }
        Ok(folder)
    }

    fn take(&mut self, root: &Path, entry: &DirEntry) -> Result<()> {
        let path = entry.path();
        let relative = path.strip_prefix(root).unwrap_or(path);
        let shown = relative.display();
        if entry.path_is_symlink() && !stays_inside(path, root) {
            let target = fs::read_link(path).unwrap_or_default();
            let target = target.display();
            self.left_out.push(format!(
                "{shown}: the link leads out of the folder, to {target}"
            ));
            return Ok(());
        }
        let metadata = fs::metadata(path).with_context(|| Failure::unreadable(relative))?;
        if metadata.is_dir() {
            return Ok(());
        }
        if !metadata.is_file() {
            self.left_out.push(format!("{shown}: not a file"));
            return Ok(());
        }
        let Some(name) = relative.to_str() else {
            self.left_out
                .push(format!("{shown}: its name is not UTF-8"));
            return Ok(());
        };
        if self.listing.bytes + metadata.len() > snapshot::MAX_BYTES {
            return Err(self.too_large(&snapshot::Error::TooLarge).into());
        }
        let content = fs::read(path).with_context(|| Failure::unreadable(relative))?;
        let executable = metadata.permissions().mode() & 0o111 != 0;
        match self.listing.add(name, executable, &content) {
            Ok(()) => {}
            Err(error @ (snapshot::Error::TooLarge | snapshot::Error::TooMany)) => {
                return Err(self.too_large(&error).into());
            }
            Err(error) => {
                self.left_out.push(format!("{shown}: {error}"));
                return Ok(());
            }
        }
        self.files.insert(name.to_owned(), (executable, content));
        Ok(())
    }

    fn too_large(&self, error: &snapshot::Error) -> Failure {
        let mut failure = Failure::theirs(format!("{} is too large: {error}", self.path.display()));
        let mut largest: Vec<(&String, usize)> = self
            .files
            .iter()
            .map(|(path, (_, content))| (path, content.len()))
            .collect();
        largest.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        failure.details = largest
            .into_iter()
            .take(5)
            .map(|(path, size)| format!("{path}: {size} bytes"))
            .collect();
        failure.hint("name data and results in .gitignore; data belongs in a volume")
    }

    pub(crate) fn digest(&self) -> Digest {
        self.listing.digest()
    }

    pub(crate) fn summary(&self) -> String {
        let (files, bytes) = (self.files.len(), self.listing.bytes);
        let bytes = crate::output::bytes(i64::try_from(bytes).unwrap_or(i64::MAX));
        let word = if files == 1 { "file" } else { "files" };
        format!("{files} {word}, {bytes}")
    }

    pub(crate) fn pack(&self) -> Result<Vec<u8>> {
        let files = self
            .files
            .iter()
            .map(|(path, (executable, content))| (path.as_str(), *executable, content.as_slice()));
        snapshot::pack(files).context("failed to pack the folder")
    }

    /// The script to start: as asked for, or the usual one.
    pub(crate) fn entry(&self, asked: Option<&str>) -> Result<String, Failure> {
        let folder = self.path.display();
        if let Some(asked) = asked {
            let asked = asked.trim_start_matches("./");
            if self.files.contains_key(asked) {
                return Ok(asked.to_owned());
            }
            return Err(Failure::theirs(format!("there is no {asked} in {folder}"))
                .hint("--entry is a path within the folder; does .gitignore name the file?"));
        }
        let usual = ENTRIES
            .into_iter()
            .find(|entry| self.files.contains_key(*entry));
        if let Some(usual) = usual {
            return Ok(usual.to_owned());
        }
        let scripts: Vec<&str> = self.scripts().take(5).collect();
        let hint = match scripts.as_slice() {
            [] => "name the script with --entry FILE".to_owned(),
            scripts => format!(
                "name the script with --entry FILE, such as {}",
                scripts.join(", ")
            ),
        };
        let usual = ENTRIES.join(" or ");
        Err(Failure::theirs(format!("there is no {usual} in {folder}")).hint(hint))
    }

    /// The paths of all its Python files.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = &str> {
        let paths = self.files.keys().map(String::as_str);
        paths.filter(|path| Path::new(path).extension().is_some_and(|end| end == "py"))
    }

    /// The text of a script, as far as it is text.
    pub(crate) fn text(&self, path: &str) -> String {
        let content = self.files.get(path).map(|(_, content)| content.as_slice());
        String::from_utf8_lossy(content.unwrap_or_default()).into_owned()
    }
}

/// Whether the walk takes an entry, and goes into it where it is a folder.
fn wanted(entry: &DirEntry, root: &Path) -> bool {
    let never = entry.depth() > 0
        && entry.file_name().to_str().is_some_and(|name| {
            NEVER.contains(&name) || Path::new(name).extension().is_some_and(|end| end == "pyc")
        });
    let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
    // A folder behind a link that leads outside is not entered; a file is, to be told about.
    let leaves = folder && entry.path_is_symlink() && !stays_inside(entry.path(), root);
    !(never || leaves)
}

fn stays_inside(path: &Path, root: &Path) -> bool {
    path.canonicalize().is_ok_and(|real| real.starts_with(root))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn a_folder_is_its_files_without_the_ignored_ones() {
        let directory = tempfile::tempdir().unwrap();
        let (root, outside) = (directory.path().join("project"), directory.path());
        write(
            &root,
            &[
                ("train.py", "import pkg.model"),
                ("pkg/__init__.py", ""),
                ("pkg/model.py", "x = 1"),
                ("pkg/__pycache__/model.pyc", "junk"),
                (".gitignore", "data/\n*.log\n!keep.log\n"),
                ("data/big.bin", "data"),
                ("run.log", "log"),
                ("keep.log", "log"),
                ("pkg/.gitignore", "/secret.py\n"),
                ("pkg/secret.py", "key"),
                (".git/config", "git"),
                (".env.example", "A=1"),
                ("scripts/prepare.sh", "#!/bin/sh"),
            ],
        );
        write(outside, &[("private/key", "key")]);
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(root.join("scripts/prepare.sh"), executable).unwrap();
        symlink("pkg/model.py", root.join("alias.py")).unwrap();
        symlink("pkg", root.join("package")).unwrap();
        symlink(outside.join("private"), root.join("private")).unwrap();
        symlink(outside.join("private/key"), root.join("key")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("..", root.join("pkg/up")).unwrap();

        let folder = Folder::read(&root).unwrap();
        let want = [
            ".env.example",
            ".gitignore",
            "alias.py",
            "keep.log",
            "package/.gitignore",
            "package/__init__.py",
            "package/model.py",
            "pkg/.gitignore",
            "pkg/__init__.py",
            "pkg/model.py",
            "scripts/prepare.sh",
            "train.py",
        ];
        assert_eq!(folder.files.keys().collect::<Vec<_>>(), want);
        assert!(folder.files["scripts/prepare.sh"].0 && !folder.files["train.py"].0);
        assert!(
            folder
                .left_out
                .iter()
                .any(|line| line.starts_with("key: the link leads out")),
            "{:?}",
            folder.left_out
        );
        let sent = snapshot::read(folder.pack().unwrap().as_slice(), |_, _, _| Ok(())).unwrap();
        assert_eq!(sent.digest(), folder.digest());
        fs::write(root.join("train.py"), "changed").unwrap();
        assert_ne!(Folder::read(&root).unwrap().digest(), sent.digest());
    }

    #[test]
    fn the_script_to_start_is_found_or_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &[("main.py", ""), ("tools/eval.py", "")]);
        let folder = Folder::read(directory.path()).unwrap();
        assert_eq!(folder.entry(None).unwrap(), "main.py");
        assert_eq!(
            folder.entry(Some("./tools/eval.py")).unwrap(),
            "tools/eval.py"
        );
        assert!(folder.entry(Some("nosuch.py")).is_err());
        fs::remove_file(directory.path().join("main.py")).unwrap();
        let failure = Folder::read(directory.path())
            .unwrap()
            .entry(None)
            .unwrap_err();
        assert!(failure.hint.unwrap().contains("tools/eval.py"));
        fs::write(directory.path().join(".gitignore"), "*").unwrap();
        assert!(Folder::read(directory.path()).is_err());
    }
}
