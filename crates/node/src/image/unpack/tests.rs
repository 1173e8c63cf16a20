use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};

use tar::{Builder, Header};

use super::*;

struct Tar(Builder<Vec<u8>>);

impl Tar {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// The header's name is written as it is, which the builder would refuse for hostile ones.
    fn add(mut self, name: &str, kind: EntryType, mode: u32, link: &str, content: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.add(name, EntryType::Regular, 0o644, "", content.as_bytes())
    }

    fn symlink(self, name: &str, target: &str) -> Self {
        self.add(name, EntryType::Symlink, 0o777, target, b"")
    }

    fn unpack(self) -> (tempfile::TempDir, Result<u64>) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("layer")).unwrap();
        let bytes = self.0.into_inner().unwrap();
        let result = unpack(&bytes[..], &directory.path().join("layer"), 1 << 20);
        (directory, result)
    }
}

#[test]
fn files_keep_their_attributes() {
    let (directory, result) = Tar::new()
        .add("./", EntryType::Directory, 0o755, "", b"")
        .add("bin/", EntryType::Directory, 0o555, "", b"")
        .add("bin/su", EntryType::Regular, 0o4755, "", b"program")
        .add("bin/also", EntryType::Link, 0o644, "bin/su", b"")
        .symlink("sbin", "/bin")
        .add("pipe", EntryType::Fifo, 0o600, "", b"")
        .add("null", EntryType::Char, 0o666, "", b"")
        .unpack();
    assert_eq!(result.unwrap(), 7);
    let layer = directory.path().join("layer");
    let program = fs::metadata(layer.join("bin/su")).unwrap();
    assert_eq!(program.permissions().mode() & 0o7777, 0o4755);
    assert_eq!(program.mtime(), 1_000_000_000);
    assert_eq!(
        program.ino(),
        fs::metadata(layer.join("bin/also")).unwrap().ino()
    );
    assert_eq!(
        fs::read_link(layer.join("sbin")).unwrap(),
        Path::new("/bin")
    );
    let bin = fs::metadata(layer.join("bin")).unwrap();
    assert_eq!(bin.permissions().mode() & 0o055, 0o055);
    assert_eq!(bin.mtime(), 1_000_000_000);
    assert!(
        fs::metadata(layer.join("pipe"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    assert!(!layer.join("null").exists());
}

#[test]
fn deletions_become_what_overlayfs_understands() {
    let (directory, result) = Tar::new()
        .file("etc/.wh.passwd", "")
        .file("var/new", "new")
        .file("var/.wh..wh..opq", "")
        .file(".wh..wh.plnk", "")
        .unpack();
    result.unwrap();
    let layer = directory.path().join("layer");
    let whiteout = fs::symlink_metadata(layer.join("etc/passwd")).unwrap();
    assert!(whiteout.file_type().is_char_device() && whiteout.rdev() == 0);
    let mut value = [0; 8];
    let length =
        rustix::fs::getxattr(layer.join("var"), "user.overlay.opaque", &mut value).unwrap();
    assert_eq!(&value[..length], b"y");
    assert!(!layer.join("var/.wh..wh..opq").exists() && !layer.join(".wh..wh.plnk").exists());
}

#[rstest::rstest]
#[case::climbing(Tar::new().file("../escaped", "x"))]
#[case::climbing_later(Tar::new().file("a/../../escaped", "x"))]
#[case::hard_link_out(Tar::new().add("a", EntryType::Link, 0o644, "../../etc/passwd", b""))]
#[case::whiteout_of_the_parent(Tar::new().file("a/.wh...", ""))]
fn a_path_that_leads_out_is_refused(#[case] archive: Tar) {
    let (directory, result) = archive.unpack();
    assert!(matches!(result, Err(Error::Outside(_))), "{result:?}");
    assert!(!directory.path().join("escaped").exists());
}

#[test]
fn a_link_leads_nowhere_but_into_the_layer() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().to_str().unwrap();
    fs::create_dir_all(outside.path().join("deep")).unwrap();
    let (directory, result) = Tar::new()
        .add("real", EntryType::Directory, 0o755, "", b"")
        .symlink("inside", "/real")
        .file("inside/kept", "x")
        .symlink("out", target)
        .file("out/escaped", "x")
        .unpack();
    // The link's target does not exist within the layer, which is an error and not a way out.
    assert!(matches!(result, Err(Error::Unpack(_))), "{result:?}");
    assert!(!outside.path().join("escaped").exists());
    assert_eq!(
        fs::read(directory.path().join("layer/real/kept")).unwrap(),
        b"x"
    );
}

#[test]
fn a_planted_link_is_replaced_and_not_written_through() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    let (directory, result) = Tar::new()
        .symlink("file", outside.path().to_str().unwrap())
        .file("file", "new")
        .file("directory/inner", "x")
        .file("directory", "now a file")
        .unpack();
    result.unwrap();
    assert_eq!(fs::read(outside.path()).unwrap(), b"");
    assert_eq!(
        fs::read(directory.path().join("layer/file")).unwrap(),
        b"new"
    );
    assert_eq!(
        fs::read(directory.path().join("layer/directory")).unwrap(),
        b"now a file"
    );
}

#[test]
fn a_bomb_is_stopped_by_the_budget() {
    let content = vec![0; 2 << 20];
    let archive = Tar::new().add("zeros", EntryType::Regular, 0o644, "", &content);
    let (_directory, result) = archive.unpack();
    assert!(matches!(result, Err(Error::TooLarge)));
}

#[test]
fn attributes_that_steer_overlayfs_are_dropped() {
    let mut archive = Tar::new();
    let records: &[(&str, &[u8])] = &[
        ("SCHILY.xattr.user.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.trusted.overlay.metacopy", b""),
        ("SCHILY.xattr.user.note", b"kept"),
    ];
    archive
        .0
        .append_pax_extensions(records.iter().copied())
        .unwrap();
    let (directory, result) = archive.file("file", "x").unpack();
    result.unwrap();
    let file = directory.path().join("layer/file");
    let mut names = vec![0; 1024];
    let length = rustix::fs::listxattr(&file, &mut names).unwrap();
    let names = String::from_utf8_lossy(&names[..length]).into_owned();
    assert!(!names.contains("overlay"), "{names}");
    assert!(names.contains("user.note"), "{names}");
}

#[test]
fn what_must_be_held_in_memory_is_bounded() {
    let long = vec![b'a'; 2 << 20];
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let (_directory, result) = Tar::new().add("x", kind, 0o644, "", &long).unpack();
        let refused = result.unwrap_err();
        let chain = format!("{refused:?}");
        assert!(chain.contains("too long"), "{chain}");
    }
    // What a folder claims to contain is not written, and counts all the same.
    let (_directory, result) = Tar::new()
        .add("d/", EntryType::Directory, 0o755, "", &long)
        .unpack();
    assert!(matches!(result, Err(Error::TooLarge)), "{result:?}");
    let mut layer = Layer {
        root: rustix::fs::open("/", OFlags::PATH, Mode::empty()).unwrap(),
        directories: Vec::new(),
        held: HELD_MAX,
        written: 0,
        budget: 0,
        owns: false,
    };
    let attributes = Attributes {
        mode: 0,
        owner: 0,
        group: 0,
        modified: 0,
        extended: Vec::new(),
    };
    let held = layer.hold(PathBuf::from("a"), attributes);
    assert!(matches!(held, Err(Error::TooMany)));
}
