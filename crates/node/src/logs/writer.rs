//! The supervisor's half: bytes from a container's pipes become records in files.
//!
//! Synchronous and small. All complete lines of a call go to the file in one `write`, so the log
//! is as live as the reads from the pipe, and nothing but the begun line is held back in memory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::files::{self, LogFile};
use super::record::{self, CONTENT_MAX, PREFIX_LENGTH, Time};
use super::{Stream, record::prefix};

/// How much of a container's output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A new file is begun when the current one would grow beyond this.
    pub file_bytes: u64,
    /// Files of one attempt that are kept.
    pub files: usize,
    /// Attempts that are kept.
    pub attempts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 64 << 20,
            files: 5,
            attempts: 5,
        }
    }
}

/// More files than the limit says are kept while somebody reads them, but not more than this.
const FILES_HELD_FOR_READERS: usize = 16;
/// Bytes that become records before these are written. A chunk of nothing but newlines grows by a
/// factor of forty, and the supervisor is to stay small.
const CHUNK_BYTES: usize = 32 << 10;

/// Writes the log of one attempt of one container. Dropping it ends the log.
#[derive(Debug)]
pub struct Writer {
    directory: PathBuf,
    attempt: u32,
    limits: Limits,
    /// Locked: tells readers that more may come. Released before `file` closes, because closing
    /// `file` is what wakes them.
    lock: Option<File>,
    file: File,
    sequence: u64,
    size: u64,
    buffer: Vec<u8>,
    stdout: Line,
    stderr: Line,
    /// Bytes of records that the disk did not take.
    lost: u64,
}

/// The line of a stream that is not complete yet.
#[derive(Debug, Default)]
struct Line {
    pending: Vec<u8>,
    /// Pieces of this line are in the file already.
    begun: bool,
}

impl Writer {
    /// Opens the log of an attempt in the pod's log directory ([`crate::layout::pod_logs`]) for
    /// appending, and deletes attempts that are too old.
    pub fn open(
        directory: &Path,
        container: &str,
        attempt: u32,
        limits: Limits,
    ) -> io::Result<Self> {
        let directory = directory.join(container);
        fs::create_dir_all(&directory)?;
        let lock = File::open(&directory)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let newest = files::of_attempt(&directory, attempt)?.pop();
        let sequence = newest.map_or(0, |file| file.sequence);
        let (file, size) = open_file(&files::path(&directory, attempt, sequence))?;
        let writer = Self {
            directory,
            attempt,
            limits,
            lock: Some(lock),
            file,
            sequence,
            size,
            buffer: Vec::new(),
            stdout: Line::default(),
            stderr: Line::default(),
            lost: 0,
        };
        writer.delete_old_attempts()?;
        Ok(writer)
    }

    /// Appends what came from one of the container's pipes. An error means that records of this
    /// call are lost (a full disk); the log itself stays intact and the next call may work.
    pub fn write_stream(&mut self, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let time = record::now();
        let mut result = Ok(());
        for chunk in bytes.chunks(CHUNK_BYTES) {
            self.push_lines(&time, stream, chunk);
            result = result.and(self.write_buffer(&time));
        }
        result
    }

    /// Writes begun lines too, as pieces. For moments when nothing comes: progress bars that never
    /// end their line become visible.
    pub fn flush(&mut self) -> io::Result<()> {
        let time = record::now();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let mut line = std::mem::take(self.line(stream));
            if !line.pending.is_empty() {
                self.push(&prefix(&time, stream, false), &line.pending);
                line.pending.clear();
                line.begun = true;
            }
            *self.line(stream) = line;
        }
        self.write_buffer(&time)
    }

    /// Ends begun lines. The log then ends with a complete line.
    fn finish(&mut self) -> io::Result<()> {
        let time = record::now();
        for stream in [Stream::Stdout, Stream::Stderr] {
            let line = std::mem::take(self.line(stream));
            if line.begun || !line.pending.is_empty() {
                self.push(&prefix(&time, stream, true), &line.pending);
            }
        }
        self.write_buffer(&time)
    }

    /// Bytes that the writer keeps allocated.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.buffer.capacity() + self.stdout.pending.capacity() + self.stderr.pending.capacity()
    }

    fn line(&mut self, stream: Stream) -> &mut Line {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn push_lines(&mut self, time: &Time, stream: Stream, mut bytes: &[u8]) {
        let whole = prefix(time, stream, true);
        let mut line = std::mem::take(self.line(stream));
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let content = &bytes[..end];
            bytes = &bytes[end + 1..];
            if line.pending.is_empty() && content.len() <= CONTENT_MAX {
                self.push(&whole, content);
            } else {
                self.push_pieces(time, stream, &mut line, content);
                self.push(&whole, &line.pending);
                line.pending.clear();
            }
            line.begun = false;
        }
        self.push_pieces(time, stream, &mut line, bytes);
        *self.line(stream) = line;
    }

    /// Adds content to a line and moves all full pieces of it to the buffer.
    fn push_pieces(&mut self, time: &Time, stream: Stream, line: &mut Line, mut content: &[u8]) {
        while line.pending.len() + content.len() > CONTENT_MAX {
            let (piece, rest) = content.split_at(CONTENT_MAX - line.pending.len());
            line.pending.extend_from_slice(piece);
            self.push(&prefix(time, stream, false), &line.pending);
            line.pending.clear();
            line.begun = true;
            content = rest;
        }
        line.pending.extend_from_slice(content);
    }

    fn push(&mut self, prefix: &[u8; PREFIX_LENGTH], content: &[u8]) {
        self.buffer.extend_from_slice(prefix);
        self.buffer.extend_from_slice(content);
        self.buffer.push(b'\n');
    }

    fn write_buffer(&mut self, time: &Time) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        if self.lost > 0 {
            let note = format!(
                "astrago: {} bytes of the log could not be written\n",
                self.lost
            );
            let mut with_note = prefix(time, Stream::Stderr, true).to_vec();
            with_note.extend_from_slice(note.as_bytes());
            buffer.splice(0..0, with_note);
        }
        let written = self.append(&buffer);
        if written.is_ok() {
            self.lost = 0;
        } else {
            self.lost += buffer.len() as u64;
        }
        // The allocation is kept, unless a flood of empty lines made it large.
        buffer.clear();
        buffer.shrink_to(2 * CHUNK_BYTES);
        self.buffer = buffer;
        written
    }

    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        let length = records.len() as u64;
        if self.size > 0 && self.size + length > self.limits.file_bytes {
            self.rotate()?;
        }
        if let Err(error) = self.file.write_all(records) {
            // Half a record would make one line of two.
            self.file.set_len(self.size)?;
            return Err(error);
        }
        self.size += length;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let next = files::path(&self.directory, self.attempt, self.sequence + 1);
        (self.file, self.size) = open_file(&next)?;
        self.sequence += 1;
        let kept = files::of_attempt(&self.directory, self.attempt)?;
        let mut excess = kept.len().saturating_sub(self.limits.files.max(1));
        for LogFile { path, .. } in kept {
            if excess == 0 || (excess <= FILES_HELD_FOR_READERS && is_being_read(&path)) {
                break;
            }
            fs::remove_file(path)?;
            excess -= 1;
        }
        Ok(())
    }

    fn delete_old_attempts(&self) -> io::Result<()> {
        let kept = u32::try_from(self.limits.attempts.max(1)).unwrap_or(u32::MAX);
        for attempt in files::attempts(&self.directory)? {
            if attempt.saturating_add(kept) <= self.attempt {
                for file in files::of_attempt(&self.directory, attempt)? {
                    fs::remove_file(file.path)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // There is nobody left to tell, and the log is consistent either way.
        let _ = self.finish();
        self.lock = None;
    }
}

/// Opens a file to append to. A record that a crash left half written is cut off.
fn open_file(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(path)?;
    let size = file.metadata()?.len();
    let mut end = size;
    let mut block = vec![0; 64 << 10];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let part = &mut block[..usize::try_from(end - start).unwrap_or(0)];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(newline) = memchr::memrchr(b'\n', part) {
            end = start + newline as u64 + 1;
            break;
        }
        end = start;
    }
    if end < size {
        file.set_len(end)?;
    }
    Ok((file, end))
}

fn is_being_read(path: &Path) -> bool {
    File::open(path)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}
