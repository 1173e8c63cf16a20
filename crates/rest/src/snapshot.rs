//! A snapshot of a folder of code: which files it has, and the digest that names its content.
//!
//! A snapshot travels as a tar archive, compressed with gzip, of plain files. Its digest is made of the
//! files alone (path, whether it can be executed, content), so the same folder has the same digest
//! whatever program packed it, and whenever.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path};
use std::rc::Rc;
use std::str::FromStr;

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The most bytes that all files of a snapshot may have together.
pub const MAX_BYTES: u64 = 256 * 1024 * 1024;

pub const MAX_FILES: usize = 20_000;

const MAX_PATH_BYTES: usize = 1024;

/// The most bytes that an archive may have between the contents of two of its entries.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

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
        self.expect(path, file.size)?;
        self.bytes += file.size;
        self.files.insert(path.to_owned(), file);
        Ok(())
    }

    /// Refuses a file that cannot be added, before anybody reads it.
    fn expect(&self, path: &str, size: u64) -> Result<(), Error> {
        check_path(path)?;
        if self.bytes.saturating_add(size) > MAX_BYTES {
            return Err(Error::TooLarge);
        }
        if self.files.len() >= MAX_FILES {
            return Err(Error::TooMany);
        }
        if self.files.contains_key(path) {
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

    /// Refuses a file whose path goes through another file, and more folders than it may have files: each is one on the
    /// disk of every node, and none has to be in the archive.
    fn check(&self) -> Result<(), Error> {
        if self.files.is_empty() {
            return Err(Error::Empty);
        }
        let mut folders = HashSet::new();
        for path in self.files.keys() {
            for above in Path::new(path).ancestors().skip(1).filter_map(Path::to_str) {
                if self.files.contains_key(above) {
                    return Err(Error::Path(path.clone()));
                }
                if !folders.insert(above) {
                    break;
                }
            }
            if folders.len() > MAX_FILES {
                return Err(Error::TooMany);
            }
        }
        Ok(())
    }
}

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
    #[error("it has more than {MAX_FILES} files or folders")]
    TooMany,
    #[error("it has no files")]
    Empty,
}

/// Reads an archive from beginning to end and gives each file to `visit`, which reads as much of it as it likes. What is
/// returned has been checked: plain files below one folder, and no more than a snapshot may have. Nothing is held but
/// what `visit` holds: an archive of a few bytes may have files of many.
pub fn read(
    archive: impl Read,
    mut visit: impl FnMut(&str, bool, &mut dyn Read) -> io::Result<()>,
) -> Result<Listing, Error> {
    // Padding and headers beside the files; beyond that an archive only wants to cost time.
    let limit = MAX_BYTES + MAX_FILES as u64 * 4096;
    let mut listing = Listing::default();
    entries(GzDecoder::new(archive).take(limit), |entry| {
        let kind = entry.header().entry_type();
        let path = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|error| Error::Path(String::from_utf8_lossy(error.as_bytes()).into_owned()))?;
        let path = path.trim_start_matches("./");
        if kind.is_dir() || kind.is_pax_global_extensions() {
            return Ok(());
        }
        if !kind.is_file() {
            return Err(Error::Kind(path.to_owned()));
        }
        listing.expect(path, entry.size())?;
        let executable = entry.header().mode()? & 0o111 != 0;
        let mut content = Hashed {
            from: entry,
            hash: Sha256::new(),
            size: 0,
        };
        visit(path, executable, &mut content)?;
        io::copy(&mut content, &mut io::sink())?;
        let file = File {
            executable,
            size: content.size,
            content: hex::encode(content.hash.finalize()),
        };
        listing.insert(path, file)
    })?;
    listing.check()?;
    Ok(listing)
}

/// Visits the entries of a tar archive that anybody may have made. What comes before the content of an entry, its name for
/// one, is held in memory and has therefore an end; of the content nothing is held.
pub fn entries<R: Read, E: From<io::Error>>(
    archive: R,
    mut visit: impl FnMut(&mut tar::Entry<'_, Allowed<R>>) -> Result<(), E>,
) -> Result<(), E> {
    let left = Rc::new(Cell::new(0));
    let mut archive = tar::Archive::new(Allowed {
        from: archive,
        left: Rc::clone(&left),
    });
    let mut entries = archive.entries()?;
    loop {
        left.set(MAX_HEADER_BYTES);
        let Some(entry) = entries.next() else {
            return Ok(());
        };
        let mut entry = entry?;
        left.set(u64::MAX);
        visit(&mut entry)?;
        // What nobody wanted must not count as the header of the next one.
        io::copy(&mut entry, &mut io::sink())?;
    }
}

/// Reads as much as is left.
#[derive(Debug)]
pub struct Allowed<R> {
    from: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Allowed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        if left == 0 && !buffer.is_empty() {
            return Err(io::Error::other("a header of the archive is too long"));
        }
        let most = buffer.len().min(left);
        let read = self.from.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

/// Remembers the digest and the size of what was read through it.
struct Hashed<R> {
    from: R,
    hash: Sha256,
    size: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.size += read as u64;
        Ok(read)
    }
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
    fn little_that_becomes_much_is_refused_and_never_held() {
        // A name and a file that are a thousand times as long as what is sent, and a hundred folders for each file.
        let zeros = |size: u64, kind: tar::EntryType| {
            let mut header = tar::Header::new_gnu();
            header.set_path("x").unwrap();
            header.set_entry_type(kind);
            header.set_mode(0o644);
            header.set_size(size);
            header.set_cksum();
            let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            let mut builder = tar::Builder::new(encoder);
            builder.append(&header, io::repeat(0).take(size)).unwrap();
            builder.into_inner().unwrap().finish().unwrap()
        };
        for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader] {
            let refused = listing(&zeros(1 << 20, kind));
            assert!(matches!(refused, Err(Error::Read(_))), "{refused:?}");
        }
        let large = zeros(4 << 20, tar::EntryType::Regular);
        assert_eq!(listing(&large).unwrap().bytes, 4 << 20);
        let mut deep = Listing::default();
        for number in 0..2_000 {
            let path = format!("{number}/{}f", "a/".repeat(100));
            deep.add(&path, false, b"").unwrap();
        }
        assert!(matches!(deep.check(), Err(Error::TooMany)));
    }

    /// Whatever somebody sends, it is read or refused, and what is read is plain files below one folder.
    #[test]
    fn any_bytes_are_a_snapshot_or_are_refused() {
        use std::io::Write as _;

        use rand::rngs::StdRng;
        use rand::{RngExt as _, SeedableRng as _};
        let files: [(&str, bool, &[u8]); 3] = [
            ("train.py", false, b"a"),
            ("pkg/run", true, b"b"),
            (&"long/".repeat(40), false, b"c"),
        ];
        let packed = pack([
            files[0],
            files[1],
            (&format!("{}c", files[2].0), false, b"c"),
        ]);
        let mut plain = Vec::new();
        GzDecoder::new(&*packed.unwrap())
            .read_to_end(&mut plain)
            .unwrap();
        let mut read_whole = 0;
        for seed in 0..500 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut bytes = plain.clone();
            for _ in 0..random.random_range(0..4) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            bytes.truncate(random.random_range(0..=bytes.len()).max(512));
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(&bytes).unwrap();
            if let Ok(listing) = listing(&encoder.finish().unwrap()) {
                read_whole += 1;
                assert!(listing.files.keys().all(|path| check_path(path).is_ok()));
            }
        }
        assert!(read_whole > 0);
        for length in 0..200_u8 {
            let _ = listing(&vec![length; usize::from(length)]);
        }
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
