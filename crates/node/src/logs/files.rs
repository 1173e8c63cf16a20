//! Which files belong to which attempt.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogFile {
    pub(super) sequence: u64,
    pub(super) path: PathBuf,
}

pub(super) fn path(directory: &Path, attempt: u32, sequence: u64) -> PathBuf {
    directory.join(match sequence {
        0 => format!("{attempt}.log"),
        _ => format!("{attempt}.log.{sequence}"),
    })
}

/// The attempts of a container that have logs, oldest first. None where there is no directory.
pub fn attempts(directory: &Path) -> io::Result<Vec<u32>> {
    let mut attempts: Vec<u32> = names(directory)?.map(|(attempt, _)| attempt).collect();
    attempts.sort_unstable();
    attempts.dedup();
    Ok(attempts)
}

/// The files of one attempt, oldest first.
pub(super) fn of_attempt(directory: &Path, attempt: u32) -> io::Result<Vec<LogFile>> {
    let mut files: Vec<LogFile> = names(directory)?
        .filter(|(of, _)| *of == attempt)
        .map(|(_, sequence)| LogFile {
            sequence,
            path: path(directory, attempt, sequence),
        })
        .collect();
    files.sort_unstable_by_key(|file| file.sequence);
    Ok(files)
}

/// The log directory of the youngest pod of this name.
pub fn find_pod(data_dir: &Path, namespace: &str, pod: &str) -> io::Result<Option<PathBuf>> {
    let found = pods_of_name(data_dir, namespace, pod)?;
    Ok(found.into_iter().next_back().map(|(_, path)| path))
}

/// When the log directories of all pods of this name were made, and where they are; the youngest last.
pub(crate) fn pods_of_name(
    data_dir: &Path,
    namespace: &str,
    pod: &str,
) -> io::Result<Vec<(SystemTime, PathBuf)>> {
    let start = format!("{namespace}_{pod}_");
    let mut found = Vec::new();
    for entry in entries(&data_dir.join("logs"))? {
        let entry = entry?;
        if !entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(&start))
        {
            continue;
        }
        let metadata = entry.metadata()?;
        let made = metadata.created().or_else(|_| metadata.modified())?;
        found.push((made, entry.path()));
    }
    found.sort();
    Ok(found)
}

fn names(directory: &Path) -> io::Result<impl Iterator<Item = (u32, u64)> + use<>> {
    let entries: Vec<_> = entries(directory)?.collect::<io::Result<_>>()?;
    Ok(entries
        .into_iter()
        .filter_map(|entry| parse_name(entry.file_name().to_str()?)))
}

/// A directory's entries; none where there is no directory.
pub(super) fn entries(
    directory: &Path,
) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>> + use<>> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

fn parse_name(name: &str) -> Option<(u32, u64)> {
    let (attempt, rest) = name.split_once(".log")?;
    let sequence = match rest.strip_prefix('.') {
        Some(number) => number.parse().ok().filter(|sequence| *sequence > 0)?,
        None if rest.is_empty() => 0,
        None => return None,
    };
    Some((attempt.parse().ok()?, sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_in_the_order_of_their_numbers() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "0.log.10", "0.log", "0.log.9", "1.log", "x.log", "0.log.gz", "0.log.0",
        ] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let sequences: Vec<u64> = of_attempt(directory.path(), 0)
            .unwrap()
            .iter()
            .map(|file| file.sequence)
            .collect();
        assert_eq!(sequences, [0, 9, 10]);
        assert_eq!(attempts(directory.path()).unwrap(), [0, 1]);
        assert_eq!(
            attempts(&directory.path().join("none")).unwrap(),
            Vec::<u32>::new()
        );
    }

    #[test]
    fn a_pod_is_not_confused_with_one_whose_name_begins_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let logs = directory.path().join("logs");
        fs::create_dir_all(logs.join("team_job_1")).unwrap();
        fs::create_dir_all(logs.join("team_job-2_2")).unwrap();
        let found = find_pod(directory.path(), "team", "job").unwrap();
        assert_eq!(found, Some(logs.join("team_job_1")));
        assert_eq!(find_pod(directory.path(), "other", "job").unwrap(), None);
    }
}
