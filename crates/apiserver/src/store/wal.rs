//! Reading SQLite's write-ahead log where SQLite gives up.
//!
//! Every frame of the log (a page with a header) carries a checksum over itself and everything before it. At the first
//! that does not agree SQLite takes the log for ended and forgets what follows, although it was committed and acknowledged. But
//! the frames behind a damaged one still agree with the checksum that is *written* in it. So the log can be sealed again, with
//! the damaged page as it is: the checksum of each row then says which of them were hit.
//!
//! The format is described at <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::collections::HashMap;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Checksums of words in little-endian order; the last bit says big-endian.
const MAGIC: u32 = 0x377f_0682;
const VERSION: u32 = 3_007_000;

type Sum = (u32, u32);

/// A log that SQLite can read to its end again.
#[derive(Debug)]
pub(super) struct Sealed {
    pub(super) bytes: Vec<u8>,
    /// Which frames were damaged, counted from 1; 0 is the header.
    pub(super) damaged: Vec<usize>,
    /// Whether a committed transaction follows the one with the first damaged frame. Without one, the last transaction may
    /// just not have reached the disk when the power went, and then nobody was told that it had.
    pub(super) is_certain: bool,
}

/// The log sealed again, if something committed lies behind a damaged frame.
pub(super) fn reseal(wal: &[u8], page_size: usize) -> Option<Sealed> {
    let mut bytes = wal.to_vec();
    let mut damaged = Vec::new();
    let frames: Vec<&[u8]> = wal
        .get(HEADER..)?
        .chunks_exact(FRAME_HEADER + page_size)
        .collect();
    let header = &wal[..HEADER];
    let is_little = word(header, 0) & 1 == 0;
    let is_header_whole = word(header, 0) & !1 == MAGIC
        && word(header, 8) as usize == page_size
        && sum(is_little, (0, 0), &header[..24]) == (word(header, 24), word(header, 28));
    if !is_header_whole {
        // The salts are in every frame too.
        let first = frames.first()?;
        bytes[..4].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&VERSION.to_be_bytes());
        bytes[8..12].copy_from_slice(&u32::try_from(page_size).ok()?.to_be_bytes());
        bytes[16..24].copy_from_slice(&first[8..16]);
        damaged.push(0);
    }
    let is_little = is_little || !is_header_whole;
    let start = sum(is_little, (0, 0), &bytes[..24]);
    bytes[24..28].copy_from_slice(&start.0.to_be_bytes());
    bytes[28..32].copy_from_slice(&start.1.to_be_bytes());
    let salts = bytes[16..24].to_vec();

    // How far the log reaches: frames of an earlier use of the file have other salts. One frame may have lost its own.
    let is_ours = |frame: &[u8]| frame[8..16] == salts[..];
    let length = (0..frames.len())
        .take_while(|&at| {
            is_ours(frames[at]) || frames.get(at + 1).is_some_and(|next| is_ours(next))
        })
        .count();
    let commits: Vec<usize> = (0..length).filter(|&at| word(frames[at], 4) != 0).collect();
    let last = *commits.last()?;
    let size = word(frames[last], 4);

    let (mut written, mut sealed) = (start, start);
    for (at, frame) in frames[..=last].iter().enumerate() {
        let covered = |from: Sum| {
            let head = sum(is_little, from, &frame[..8]);
            sum(is_little, head, &frame[FRAME_HEADER..])
        };
        let stored = (word(frame, 16), word(frame, 20));
        // Behind a frame whose own checksum was hit, the next agrees with what it should have been.
        if (covered(written) != stored && covered(sealed) != stored) || !is_ours(frame) {
            damaged.push(at + 1);
            // A page with an impossible number would end the log again: it is a second copy of the one before it instead.
            if at > 0 && !(1..=size).contains(&word(frame, 0)) {
                let place = HEADER + at * (FRAME_HEADER + page_size);
                let before = place - FRAME_HEADER - page_size;
                bytes.copy_within(before..before + 4, place);
                bytes.copy_within(before + FRAME_HEADER..place, place + FRAME_HEADER);
            }
        }
        written = stored;
        let place = HEADER + at * (FRAME_HEADER + page_size);
        sealed = sum(is_little, sealed, &bytes[place..place + 8]);
        sealed = sum(
            is_little,
            sealed,
            &bytes[place + FRAME_HEADER..place + FRAME_HEADER + page_size],
        );
        bytes[place + 8..place + 16].copy_from_slice(&salts);
        bytes[place + 16..place + 20].copy_from_slice(&sealed.0.to_be_bytes());
        bytes[place + 20..place + 24].copy_from_slice(&sealed.1.to_be_bytes());
    }
    let first = damaged.first()?.saturating_sub(1);
    bytes.truncate(HEADER + (last + 1) * (FRAME_HEADER + page_size));
    Some(Sealed {
        bytes,
        is_certain: commits
            .iter()
            .any(|&commit| first <= commit && commit < last),
        damaged,
    })
}

/// The newest committed content of each page in a log, as SQLite would read it.
pub(super) fn pages(wal: &[u8], page_size: usize) -> HashMap<u32, &[u8]> {
    let mut pages = HashMap::new();
    let Some(header) = wal.get(..HEADER) else {
        return pages;
    };
    let is_little = word(header, 0) & 1 == 0;
    let mut running = (word(header, 24), word(header, 28));
    let mut group = Vec::new();
    for frame in wal[HEADER..].chunks_exact(FRAME_HEADER + page_size) {
        running = sum(is_little, running, &frame[..8]);
        running = sum(is_little, running, &frame[FRAME_HEADER..]);
        if frame[8..16] != header[16..24] || running != (word(frame, 16), word(frame, 20)) {
            break;
        }
        group.push((word(frame, 0), &frame[FRAME_HEADER..]));
        if word(frame, 4) != 0 {
            pages.extend(group.drain(..));
        }
    }
    pages
}

fn sum(is_little: bool, (mut first, mut second): Sum, bytes: &[u8]) -> Sum {
    for pair in bytes.chunks_exact(8) {
        let read = |at: usize| {
            let bytes = [pair[at], pair[at + 1], pair[at + 2], pair[at + 3]];
            if is_little {
                u32::from_le_bytes(bytes)
            } else {
                u32::from_be_bytes(bytes)
            }
        };
        first = first.wrapping_add(read(0)).wrapping_add(second);
        second = second.wrapping_add(read(4)).wrapping_add(first);
    }
    (first, second)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
