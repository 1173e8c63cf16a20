//! The kubelet's half: records become the text that `kubectl logs` prints.
//!
//! [`Reader`] is a synchronous machine that turns at most one block of a file into output per
//! [`Reader::step`], so memory stays bounded whatever the log holds. [`stream`] drives it: it runs
//! the steps where blocking is allowed, waits for the kernel's notice when there is nothing to
//! read, and goes no faster than its consumer.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};

use super::files::{self, LogFile};
use super::record::{self, Record, Time};
use super::{Stream, tail};

/// Kubernetes' log options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Go on until the container has ended.
    pub follow: bool,
    /// Begin with this many lines from the end.
    pub tail: Option<u64>,
    /// Leave out what is older.
    pub since: Option<Timestamp>,
    /// Put the time before each line.
    pub timestamps: bool,
    /// End after this many bytes of output.
    pub limit_bytes: Option<u64>,
    /// One of the two streams only.
    pub stream: Option<Stream>,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There may be more at once.
    More,
    /// There is no more yet.
    Wait,
    End,
}

/// Input that is read at a time; more than the longest record.
const BLOCK_BYTES: usize = 128 << 10;

#[derive(Debug)]
pub struct Reader {
    directory: PathBuf,
    attempt: u32,
    file: File,
    sequence: u64,
    /// Where a reader that does not follow stops: a log may grow faster than it is read.
    stop: Option<(u64, u64)>,
    offset: u64,
    /// Input that ends within a record.
    input: Vec<u8>,
    text: Text,
}

impl Reader {
    /// Opens the log of an attempt in the container's directory.
    pub fn open(directory: &Path, attempt: u32, options: Options) -> io::Result<Self> {
        let (files, file, sequence, offset) = loop {
            let files = files::of_attempt(directory, attempt)?;
            match find_start(&files, &options) {
                // Rotation took the file away between listing and opening it.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && files::of_attempt(directory, attempt)? != files => {}
                Err(error) => return Err(error),
                Ok((file, sequence, offset)) => break (files, file, sequence, offset),
            }
        };
        let stop = match files.last() {
            Some(last) if !options.follow => {
                Some((last.sequence, std::fs::metadata(&last.path)?.len()))
            }
            _ => None,
        };
        let input = Vec::new();
        let text = Text::new(&options);
        let directory = directory.to_owned();
        Ok(Self {
            directory,
            attempt,
            file,
            sequence,
            stop,
            offset,
            input,
            text,
        })
    }

    /// Does a bounded amount of work and adds its output to `output`.
    pub fn step(&mut self, output: &mut Vec<u8>) -> io::Result<Step> {
        if self.text.is_full() {
            return Ok(Step::End);
        }
        if self.read_block(output)? {
            return Ok(Step::More);
        }
        // The order matters: a log that has ended got its last file before, and whatever was
        // written to this file before either answer is found by the last look at it.
        let ended = self.has_ended()?;
        let next = self.next_file()?;
        if self.read_block(output)? {
            return Ok(Step::More);
        }
        if let Some(next) = next {
            self.go_to(&next, output)?;
            return Ok(Step::More);
        }
        if self.stop.is_some() || ended {
            self.text.end(output);
            return Ok(Step::End);
        }
        Ok(Step::Wait)
    }

    /// Bytes that the reader keeps allocated.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.input.capacity()
    }

    /// Reads and converts a block; `false` at the end of the file.
    fn read_block(&mut self, output: &mut Vec<u8>) -> io::Result<bool> {
        let mut wanted = BLOCK_BYTES;
        if let Some((sequence, size)) = self.stop
            && sequence == self.sequence
        {
            let left = size.saturating_sub(self.offset);
            wanted = wanted.min(usize::try_from(left).unwrap_or(wanted));
        }
        let read = (&self.file)
            .take(wanted as u64)
            .read_to_end(&mut self.input)?;
        self.offset += read as u64;
        let mut rest = &self.input[..];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if let Some(record) = record::parse(&rest[..end]) {
                self.text.push(&record, output);
            }
            rest = &rest[end + 1..];
        }
        let used = self.input.len() - rest.len();
        self.input.drain(..used);
        if self.input.len() > BLOCK_BYTES {
            // No record is that long: the file was damaged. Go on at the next newline.
            self.input.clear();
        }
        Ok(read > 0)
    }

    fn next_file(&self) -> io::Result<Option<LogFile>> {
        if self
            .stop
            .is_some_and(|(sequence, _)| sequence <= self.sequence)
        {
            return Ok(None);
        }
        let next = files::path(&self.directory, self.attempt, self.sequence + 1);
        if next.exists() {
            return Ok(Some(LogFile {
                sequence: self.sequence + 1,
                path: next,
            }));
        }
        let files = files::of_attempt(&self.directory, self.attempt)?;
        Ok(files.into_iter().find(|file| file.sequence > self.sequence))
    }

    fn go_to(&mut self, next: &LogFile, output: &mut Vec<u8>) -> io::Result<()> {
        let file = match open(&next.path) {
            // Taken away just now; the next step finds the one after it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let skipped = next.sequence - self.sequence - 1;
        if skipped > 0 {
            let note = format!("astrago: {skipped} log files were deleted before they were read");
            let time = record::now();
            let content = note.as_bytes();
            let stream = Stream::Stderr;
            self.text.push(
                &Record {
                    time: &time,
                    stream,
                    whole: true,
                    content,
                },
                output,
            );
        }
        self.file = file;
        self.sequence = next.sequence;
        self.offset = 0;
        self.input.clear();
        Ok(())
    }

    /// Nothing more will be written to this attempt's log.
    fn has_ended(&self) -> io::Result<bool> {
        if files::attempts(&self.directory)?
            .last()
            .is_none_or(|newest| *newest > self.attempt)
        {
            return Ok(true);
        }
        Ok(!is_being_written(&self.directory))
    }
}

/// A writer lives in this container's directory.
pub fn is_being_written(directory: &Path) -> bool {
    File::open(directory)
        .is_ok_and(|handle| flock(&handle, FlockOperation::NonBlockingLockShared).is_err())
}

/// Opens a file and marks it as being read.
fn open(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    flock(&file, FlockOperation::LockShared)?;
    Ok(file)
}

fn find_start(files: &[LogFile], options: &Options) -> io::Result<(File, u64, u64)> {
    let (index, offset) = match options.tail {
        Some(count) => tail::start(files, count, options.stream)?,
        None => (0, 0),
    };
    let mut at = files.get(index).ok_or(io::ErrorKind::NotFound)?;
    let mut offset = offset;
    if let Some(since) = options.since {
        // Skip files that end before that time: those whose successor begins before it.
        let since = record::format_time(since);
        for next in &files[index + 1..] {
            if first_time(&next.path)?.is_none_or(|time| time >= since) {
                break;
            }
            (at, offset) = (next, 0);
        }
    }
    let mut file = open(&at.path)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok((file, at.sequence, offset))
}

fn first_time(path: &Path) -> io::Result<Option<Time>> {
    let mut time: Time = [0; record::TIME_LENGTH];
    match File::open(path)?.read_exact(&mut time) {
        Ok(()) => Ok(Some(time)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Turns records into text.
#[derive(Debug)]
struct Text {
    since: Option<Time>,
    timestamps: bool,
    stream: Option<Stream>,
    /// Bytes of output that are still allowed.
    left: u64,
    /// The stream whose line is begun in the output.
    open: Option<Stream>,
    /// Streams whose line began before `since`, so that its end is left out too.
    skipping: BTreeSet<bool>,
}

impl Text {
    fn new(options: &Options) -> Self {
        Self {
            since: options.since.map(record::format_time),
            timestamps: options.timestamps,
            stream: options.stream,
            left: options.limit_bytes.unwrap_or(u64::MAX),
            open: None,
            skipping: BTreeSet::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.left == 0
    }

    fn push(&mut self, record: &Record<'_>, output: &mut Vec<u8>) {
        if self.stream.is_some_and(|stream| stream != record.stream) || self.is_skipped(record) {
            return;
        }
        if self.open.is_some_and(|open| open != record.stream) {
            // The other stream's line is interrupted, not mixed into this one.
            self.put(b"\n", output);
            self.open = None;
        }
        if self.timestamps && self.open.is_none() {
            self.put(record.time, output);
            self.put(b" ", output);
        }
        self.put(record.content, output);
        if record.whole {
            self.put(b"\n", output);
            self.open = None;
        } else {
            self.open = Some(record.stream);
        }
    }

    fn is_skipped(&mut self, record: &Record<'_>) -> bool {
        let Some(since) = &self.since else {
            return false;
        };
        let key = record.stream == Stream::Stderr;
        let skipped = record.time < &since[..] || self.skipping.contains(&key);
        if skipped && !record.whole {
            self.skipping.insert(key);
        } else {
            self.skipping.remove(&key);
        }
        skipped
    }

    fn end(&mut self, output: &mut Vec<u8>) {
        if self.open.take().is_some() {
            self.put(b"\n", output);
        }
    }

    fn put(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        let allowed = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        output.extend_from_slice(&bytes[..allowed]);
        self.left -= allowed as u64;
    }
}
