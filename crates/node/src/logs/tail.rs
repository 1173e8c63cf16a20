//! Finding where the last lines of a log begin, without reading what is before them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use super::Stream;
use super::files::LogFile;
use super::record::{self, PREFIX_LENGTH};

const BLOCK_BYTES: u64 = 64 << 10;

/// Index of the file and offset in it where the last `count` lines begin. A line that is not
/// complete yet counts; the pieces of a long line count once.
pub(super) fn start(
    files: &[LogFile],
    count: u64,
    stream: Option<Stream>,
) -> io::Result<(usize, u64)> {
    let mut lines = 0;
    let mut seen = [false; 2];
    for (index, file) in files.iter().enumerate().rev() {
        let mut backwards = Backwards::open(&file.path)?;
        while let Some((end, head)) = backwards.next()? {
            let Some(record) = record::parse(head) else {
                continue;
            };
            if stream.is_some_and(|stream| stream != record.stream) {
                continue;
            }
            // The last piece of an incomplete line ends it, for now.
            let last = !std::mem::replace(
                &mut seen[usize::from(record.stream == Stream::Stderr)],
                true,
            );
            if record.whole || last {
                if lines == count {
                    return Ok((index, end));
                }
                lines += 1;
            }
        }
    }
    Ok((0, 0))
}

/// The records of a file, last first.
struct Backwards {
    file: File,
    /// Offset of `block` in the file.
    offset: u64,
    /// The part of the file that is looked at; the records in it before `end` are to come.
    block: Vec<u8>,
    end: usize,
}

impl Backwards {
    fn open(path: &std::path::Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let offset = file.seek(SeekFrom::End(0))?;
        let mut backwards = Self {
            file,
            offset,
            block: Vec::new(),
            end: 0,
        };
        // A record that is being written right now is not looked at.
        while !backwards.cut_after_newline() && backwards.load()? {}
        Ok(backwards)
    }

    fn cut_after_newline(&mut self) -> bool {
        let newline = memchr::memrchr(b'\n', &self.block);
        self.end = newline.map_or(0, |newline| newline + 1);
        self.block.truncate(self.end);
        newline.is_some()
    }

    /// The offset after the record and the record's first bytes.
    fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if self.end == 0 && !self.load()? {
            return Ok(None);
        }
        let mut start = None;
        while start.is_none() {
            // The record's own newline is at `end - 1`.
            start = memchr::memrchr(b'\n', &self.block[..self.end - 1]).map(|newline| newline + 1);
            if start.is_none() && !self.load()? {
                start = Some(0);
            }
        }
        let start = start.unwrap_or(0);
        let after = self.offset + self.end as u64;
        let head = &self.block[start..(self.end - 1).min(start + PREFIX_LENGTH)];
        self.end = start;
        Ok(Some((after, head)))
    }

    /// Puts the block before this one in front of what is left; `false` at the file's start.
    fn load(&mut self) -> io::Result<bool> {
        if self.offset == 0 {
            return Ok(false);
        }
        let length = self.offset.min(BLOCK_BYTES);
        self.offset -= length;
        let mut block = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file.seek(SeekFrom::Start(self.offset))?;
        self.file.read_exact(&mut block)?;
        self.end += block.len();
        block.extend_from_slice(&self.block[..self.end - block.len()]);
        self.block = block;
        Ok(true)
    }
}
