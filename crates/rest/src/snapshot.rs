//! A snapshot of a folder of code: which files it has, and the digest that names its content.
//!
//! A snapshot travels as a tar archive, compressed with gzip, of plain files. Its digest is made of the
//! files alone (path, whether it can be executed, content), so the same folder has the same digest
//! whatever program packed it, and whenever.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path};
use std::str::FromStr;

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The most bytes that all files of a snapshot may have together.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The most files of a snapshot.
pub const MAX_FILES: usize = 20_000;

/// The longest path of a file.
const MAX_PATH_BYTES: usize = 1024;

/// The name of a snapshot: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    const PREFIX: &str = "sha256:";

    /// The 64 digits alone, which are safe as a file name.
    pub fn digits(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.0)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix(Self::PREFIX).unwrap_or_default();
        let hexadecimal = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if digits.len() == 64 && digits.chars().all(hexadecimal) {
            return Ok(Self(digits.to_owned()));
        }
        Err("must be sha256: and 64 hexadecimal digits".to_owned())
    }
}

/// One file of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub executable: bool,
    pub size: u64,
    /// The digest of its content, in hexadecimal.
    pub content: String,
}

/// The files of a snapshot, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub files: BTreeMap<String, File>,
    /// The bytes of all files together.
    pub bytes: u64,
}

impl Listing {
    /// Adds a file; refuses a path that would not be safe to unpack, or more than a snapshot may have.
    pub fn add(&mut self, path: &str, executable: bool, content: &[u8]) -> Result<(), Error> {
        let size = content.len() as u64;
        let content = hex::encode(Sha256::digest(content));
        self.insert(
            path,
            File {
                executable,
                size,
                content,
            },
        )
    }

    fn insert(&mut self, path: &str, file: File) -> Result<(), Error> {
        check_path(path)?;
        if self.bytes + file.size > MAX_BYTES {
            return Err(Error::TooLarge);
        }
        if self.files.len() >= MAX_FILES {
            return Err(Error::TooMany);
        }
        self.bytes += file.size;
        if self.files.insert(path.to_owned(), file).is_some() {
            return Err(Error::Twice(path.to_owned()));
        }
        Ok(())
    }

    /// The name of this content.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for (path, file) in &self.files {
            let mode = if file.executable { "755" } else { "644" };
            hash.update(format!("{mode} {} {path}\0", file.content));
        }
        Digest(hex::encode(hash.finalize()))
    }

    /// Refuses a file whose path goes through another file.
    fn check(&self) -> Result<(), Error> {
        if self.files.is_empty() {
            return Err(Error::Empty);
        }
        for path in self.files.keys() {
            let through = Path::new(path)
                .ancestors()
                .skip(1)
                .filter_map(Path::to_str)
                .find(|above| self.files.contains_key(*above));
            if through.is_some() {
                return Err(Error::Path(path.clone()));
            }
        }
        Ok(())
    }
}

/// Why an archive is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read the archive: it must be a tar archive, compressed with gzip")]
    Read(#[from] io::Error),
    #[error("the path {0:?} is not a plain relative path")]
    Path(String),
    #[error("{0:?} is in the archive twice")]
    Twice(String),
    #[error("{0:?} is neither a file nor a folder")]
    Kind(String),
    #[error("its files have more than {} MiB", MAX_BYTES / 1024 / 1024)]
    TooLarge,
    #[error("it has more than {MAX_FILES} files")]
    TooMany,
    #[error("it has no files")]
    Empty,
}

/// Reads an archive from beginning to end and gives each file to `visit`. What is returned has been
/// checked: plain files below one folder, and no more than a snapshot may have.
pub fn read(
    archive: impl Read,
    mut visit: impl FnMut(&str, bool, &[u8]) -> io::Result<()>,
) -> Result<Listing, Error> {
    // Padding and headers beside the files; beyond that an archive only wants to cost time.
    let limit = MAX_BYTES + MAX_FILES as u64 * 4096;
    let mut archive = tar::Archive::new(GzDecoder::new(archive).take(limit));
    let mut listing = Listing::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let path = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|error| Error::Path(String::from_utf8_lossy(error.as_bytes()).into_owned()))?;
        let path = path.trim_start_matches("./");
        if kind.is_dir() || kind.is_pax_global_extensions() {
            continue;
        }
        if !kind.is_file() {
            return Err(Error::Kind(path.to_owned()));
        }
        if listing.bytes + entry.size() > MAX_BYTES {
            return Err(Error::TooLarge);
        }
        let executable = entry.header().mode()? & 0o111 != 0;
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        listing.add(path, executable, &content)?;
        visit(path, executable, &content)?;
    }
    listing.check()?;
    Ok(listing)
}

/// Packs files as a snapshot's archive: path, whether it can be executed, content.
pub fn pack<'file>(
    files: impl IntoIterator<Item = (&'file str, bool, &'file [u8])>,
) -> io::Result<Vec<u8>> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(encoder);
    for (path, executable, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        header.set_mtime(0);
        builder.append_data(&mut header, path, content)?;
    }
    builder.into_inner()?.finish()
}

/// Only names of files below one folder pass; none that Kubernetes refuses as a path in a volume.
fn check_path(path: &str) -> Result<(), Error> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    let proper = !path.is_empty()
        && path.len() <= MAX_PATH_BYTES
        && !path.starts_with("..")
        && !path.contains(|c: char| c.is_control())
        && Path::new(path).components().all(plain)
        && !path.split('/').any(|part| part.is_empty() || part == ".");
    if proper {
        return Ok(());
    }
    Err(Error::Path(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn listing(archive: &[u8]) -> Result<Listing, Error> {
        read(archive, |_, _, _| Ok(()))
    }

    #[test]
    fn the_digest_is_of_the_files_alone() {
        let files: [(&str, bool, &[u8]); 2] = [("train.py", false, b"a"), ("pkg/run", true, b"b")];
        let one = listing(&pack(files).unwrap()).unwrap();
        let other = listing(&pack([files[1], files[0]]).unwrap()).unwrap();
        assert_eq!(one.digest(), other.digest());
        assert_eq!(one.digest().to_string().parse(), Ok(one.digest()));
        assert_eq!(one.bytes, 2);
        let plain = [files[0], ("pkg/run", false, b"b".as_slice())];
        let plain = listing(&pack(plain).unwrap()).unwrap();
        assert_ne!(plain.digest(), one.digest(), "a mode is content too");
    }

    /// `tar::Builder` refuses such paths itself, so the header is written by hand.
    fn archive(path: &str, kind: tar::EntryType) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(encoder);
        builder.append(&header, io::empty()).unwrap();
        builder.into_inner().unwrap().finish().unwrap()
    }

    #[rstest]
    #[case::above("../x", tar::EntryType::Regular)]
    #[case::within("a/../../x", tar::EntryType::Regular)]
    #[case::absolute("/etc/passwd", tar::EntryType::Regular)]
    #[case::dots("..data/x", tar::EntryType::Regular)]
    #[case::newline("a\nb", tar::EntryType::Regular)]
    #[case::link("link", tar::EntryType::Symlink)]
    #[case::hard_link("link", tar::EntryType::Link)]
    #[case::device("null", tar::EntryType::Char)]
    #[case::no_files("folder", tar::EntryType::Directory)]
    fn what_is_not_a_plain_file_below_the_folder_is_refused(
        #[case] path: &str,
        #[case] kind: tar::EntryType,
    ) {
        assert!(listing(&archive(path, kind)).is_err());
    }

    #[test]
    fn the_same_path_twice_and_a_path_through_a_file_are_refused() {
        let twice = pack([("a", false, b"1".as_slice()), ("a", false, b"2")]).unwrap();
        assert!(matches!(listing(&twice), Err(Error::Twice(_))));
        let through = pack([("a", false, b"1".as_slice()), ("a/b", false, b"2")]).unwrap();
        assert!(matches!(listing(&through), Err(Error::Path(_))));
        assert!(matches!(listing(b"no archive"), Err(Error::Read(_))));
    }
}
