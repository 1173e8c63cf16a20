//! Folders of code that pods mount: volumes of the driver `snapshots.astrago.io`.
//!
//! The store has one folder per namespace, and a pod gets what is in its own. It is unpacked once for
//! all pods of the namespace; [`housekeeping`](crate::housekeeping) removes what no pod uses.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use flate2::read::GzDecoder;
use k8s_openapi::api::core::v1::CSIVolumeSource;

use crate::layout;
use crate::tree;

const DRIVER: &str = "snapshots.astrago.io";

/// What may come out of one archive. The store takes less; this only bounds a damaged disk.
const BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// The folder behind a volume of a pod in `namespace`, or what is wrong with the volume.
pub(super) fn folder(
    store: Option<&Path>,
    data_dir: &Path,
    namespace: &str,
    volume: &CSIVolumeSource,
) -> Result<PathBuf, String> {
    if volume.driver != DRIVER {
        let driver = &volume.driver;
        return Err(format!(
            "there is no driver {driver:?} on this node, only {DRIVER}"
        ));
    }
    let attributes = volume.volume_attributes.as_ref();
    let digest = attributes
        .and_then(|attributes| attributes.get("digest"))
        .map(String::as_str)
        .unwrap_or_default();
    let digits = digest.strip_prefix("sha256:").unwrap_or_default();
    let hexadecimal = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if digits.len() != 64 || !digits.chars().all(hexadecimal) {
        return Err(format!("{digest:?} is not the digest of a snapshot"));
    }
    let folder = layout::snapshots(data_dir).join(namespace).join(digits);
    if folder.is_dir() {
        // Younger again, so that it is not taken for unused before the pod's files say otherwise.
        let used = File::open(&folder).and_then(|file| file.set_modified(SystemTime::now()));
        return used
            .map(|()| folder)
            .map_err(|error| format!("snapshot {digest} cannot be used: {error}"));
    }
    let archive = store.map(|store| store.join(namespace).join(format!("{digits}.tar.gz")));
    let Some(archive) = archive.filter(|archive| archive.is_file()) else {
        return Err(format!(
            "there is no snapshot {digest} in namespace {namespace:?}"
        ));
    };
    unpack(&archive, &folder)
        .map(|()| folder)
        .map_err(|error| format!("snapshot {digest} cannot be unpacked: {error}"))
}

/// Unpacks beside the folder and renames: whoever sees the folder sees all of it.
fn unpack(archive: &Path, folder: &Path) -> io::Result<()> {
    let parent = folder.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(parent)?;
    let draft = tempfile_name(folder);
    fs::DirBuilder::new().mode(0o755).create(&draft)?;
    // On disk before it has its name: after a power failure whatever has it is trusted.
    let unpacked = unpack_into(BufReader::new(File::open(archive)?), &draft)
        .and_then(|()| Ok(rustix::fs::syncfs(File::open(&draft)?)?))
        .and_then(|()| fs::rename(&draft, folder));
    if unpacked.is_err() {
        let _ = tree::remove(&draft);
        // Another pod of the job may have been faster.
        if folder.is_dir() {
            return Ok(());
        }
    }
    unpacked
}

/// The store takes plain files only. That is what makes this safe, so it is not taken on trust: a link
/// or a path that leads elsewhere is refused here too.
fn unpack_into(archive: impl Read, folder: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(GzDecoder::new(archive).take(BYTES_MAX));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let path = entry.path()?.into_owned();
        let path = path.strip_prefix(".").unwrap_or(&path);
        if kind.is_dir() || kind.is_pax_global_extensions() {
            continue;
        }
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !kind.is_file() || !path.components().all(plain) {
            let problem = format!("{} is not a plain file", path.display());
            return Err(io::Error::other(problem));
        }
        let target = folder.join(path);
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(target.parent().unwrap_or(folder))?;
        let executable = entry.header().mode()? & 0o111 != 0;
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(if executable { 0o755 } else { 0o644 })
            .open(&target)?;
        io::copy(&mut entry, &mut file)?;
    }
    Ok(())
}

/// A name beside the folder that nobody else uses.
fn tempfile_name(folder: &Path) -> PathBuf {
    let time = jiff::Timestamp::now().as_nanosecond();
    let thread = rustix::thread::gettid().as_raw_nonzero();
    folder.with_extension(format!("{time}-{thread}.new"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn archive(files: &[(&str, u32, tar::EntryType)]) -> Vec<u8> {
        let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut builder = tar::Builder::new(encoder);
        for (path, mode, kind) in files {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_entry_type(*kind);
            header.set_mode(*mode);
            header.set_size(0);
            header.set_cksum();
            builder.append(&header, io::empty()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn volume(driver: &str, digest: &str) -> CSIVolumeSource {
        CSIVolumeSource {
            driver: driver.to_owned(),
            volume_attributes: Some(BTreeMap::from([("digest".to_owned(), digest.to_owned())])),
            ..CSIVolumeSource::default()
        }
    }

    #[test]
    fn a_pod_gets_what_its_own_namespace_has_stored() {
        let directory = tempfile::tempdir().unwrap();
        let (store, data) = (
            directory.path().join("store"),
            directory.path().join("node"),
        );
        let digits = "a".repeat(64);
        fs::create_dir_all(store.join("team")).unwrap();
        let file = tar::EntryType::Regular;
        let content = archive(&[("train.py", 0o644, file), ("bin/run", 0o755, file)]);
        fs::write(store.join(format!("team/{digits}.tar.gz")), content).unwrap();
        let ask = |namespace: &str, driver: &str, digest: &str| {
            folder(Some(&store), &data, namespace, &volume(driver, digest))
        };
        let digest = format!("sha256:{digits}");
        let found = ask("team", DRIVER, &digest).unwrap();
        assert_eq!(ask("team", DRIVER, &digest).unwrap(), found);
        let mode = |path: &str| fs::metadata(found.join(path)).unwrap().permissions().mode();
        assert_eq!(
            (mode("train.py") & 0o777, mode("bin/run") & 0o777),
            (0o644, 0o755)
        );
        // Nobody gets another namespace's by naming it, whichever way.
        for (namespace, driver, digest) in [
            ("other", DRIVER, digest.as_str()),
            ("other", DRIVER, &format!("sha256:../team/{digits}")),
            ("team", "disk.example.com", &digest),
            ("team", DRIVER, ""),
        ] {
            assert!(
                ask(namespace, driver, digest).is_err(),
                "{namespace} {driver} {digest}"
            );
        }
    }

    #[test]
    fn an_archive_with_anything_but_files_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let wrong = [
            ("../outside", tar::EntryType::Regular),
            ("link", tar::EntryType::Symlink),
        ];
        for (path, kind) in wrong {
            let file = directory.path().join("archive");
            fs::write(&file, archive(&[(path, 0o644, kind)])).unwrap();
            assert!(unpack(&file, &directory.path().join("team/target")).is_err());
            assert_eq!(
                fs::read_dir(directory.path().join("team")).unwrap().count(),
                0
            );
        }
    }
}
