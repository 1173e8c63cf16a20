//! Finding the rows of the log in a file whose structure is damaged.
//!
//! SQLite finds a row by way of the pages above it, and a wrong bit in one of those hides all rows below. Here every place of
//! every page is tried: what has the form of a row of the log is one when its checksum says so, wherever it lies.
//!
//! The format is described at <https://www.sqlite.org/fileformat2.html#b_tree_pages>.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::record::Record;

/// Columns of a row: its number (which is NULL here), four short ones, the body and the checksum.
const COLUMNS: usize = 7;
/// No object is as large as this.
const MAX_PAYLOAD: u64 = 64 << 20;

/// The pages of a database, with what its write-ahead log has instead of some of them.
pub(super) struct Pages<'a> {
    pub(super) file: &'a [u8],
    pub(super) newer: HashMap<u32, &'a [u8]>,
    pub(super) size: usize,
}

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) whole: BTreeMap<u64, Record>,
    /// Rows that have the form but not the checksum.
    pub(super) damaged: BTreeMap<u64, Record>,
}

/// Every row of the log that is left.
pub(super) fn scan(pages: &Pages<'_>) -> Found {
    let mut found = Found::default();
    let free = pages.free();
    for number in 1..=pages.count() {
        if free.contains(&number) {
            continue;
        }
        let Some(page) = pages.get(number) else {
            continue;
        };
        for at in 0..page.len() {
            let Some((record, checksum)) = row(pages, page, at) else {
                continue;
            };
            let rows = if record.checksum() == checksum {
                &mut found.whole
            } else {
                &mut found.damaged
            };
            rows.entry(record.revision).or_insert(record);
        }
    }
    found
        .damaged
        .retain(|revision, _| !found.whole.contains_key(revision));
    found
}

impl Pages<'_> {
    fn count(&self) -> u32 {
        let newest = self.newer.keys().copied().max().unwrap_or(0);
        newest.max(u32::try_from(self.file.len() / self.size).unwrap_or(u32::MAX))
    }

    fn get(&self, number: u32) -> Option<&[u8]> {
        if let Some(page) = self.newer.get(&number) {
            return Some(page);
        }
        let start = (number as usize).checked_sub(1)? * self.size;
        self.file.get(start..start + self.size)
    }

    /// Pages that hold nothing, but perhaps still what they held.
    fn free(&self) -> HashSet<u32> {
        let mut free = HashSet::new();
        let mut trunk = self.get(1).map_or(0, |page| word(page, 32));
        while trunk != 0 && free.insert(trunk) {
            let Some(page) = self.get(trunk) else { break };
            let leaves = (word(page, 4) as usize).min(self.size / 4 - 2);
            free.extend((0..leaves).map(|leaf| word(page, 8 + 4 * leaf)));
            trunk = word(page, 0);
        }
        // A list that is not as long as it says has been hit itself; then nothing is known to be free.
        let count = self.get(1).map_or(0, |page| word(page, 36) as usize);
        if free.len() == count {
            free
        } else {
            HashSet::new()
        }
    }

    /// The content of a row that begins at the start of `local` and goes on in pages of its own.
    fn payload(&self, local: &[u8], length: usize) -> Option<Vec<u8>> {
        let here = local_length(length, self.size);
        let mut payload = local.get(..here)?.to_vec();
        if here == length {
            return Some(payload);
        }
        let mut next = word(local.get(here..here + 4)?, 0);
        while payload.len() < length {
            let page = self.get(next)?;
            let rest = (length - payload.len()).min(self.size - 4);
            payload.extend_from_slice(page.get(4..4 + rest)?);
            next = word(page, 0);
        }
        Some(payload)
    }
}

/// How much of a payload lies in the page of the tree itself.
fn local_length(length: usize, size: usize) -> usize {
    let most = size - 35;
    if length <= most {
        return length;
    }
    let least = (size - 12) * 32 / 255 - 23;
    let wanted = least + (length - least) % (size - 4);
    if wanted <= most { wanted } else { least }
}

/// The row that begins here, if one does, with the checksum that it carries.
fn row(pages: &Pages<'_>, page: &[u8], at: usize) -> Option<(Record, u32)> {
    let (length, read) = varint(page.get(at..)?)?;
    if !(16..MAX_PAYLOAD).contains(&length) {
        return None;
    }
    let (revision, read_too) = varint(page.get(at + read..)?)?;
    let local = page.get(at + read + read_too..)?;
    let length = usize::try_from(length).ok()?;

    let (head, mut read) = varint(local)?;
    let head = usize::try_from(head).ok()?;
    let mut kinds = [0_u64; COLUMNS];
    for kind in &mut kinds {
        let (value, more) = varint(local.get(read..)?)?;
        *kind = value;
        read += more;
    }
    let [key, resource, namespace, name, verb, body, checksum] = kinds;
    let is_text = |kind: u64| kind >= 13 && kind % 2 == 1;
    let is_number = |kind: u64| matches!(kind, 1..=6 | 8 | 9);
    let fits = key == 0
        && head == read
        && [resource, namespace, name].into_iter().all(is_text)
        && is_number(verb)
        && body >= 12
        && body % 2 == 0
        && is_number(checksum);
    let sizes = kinds.map(width);
    if !fits
        || sizes
            .iter()
            .try_fold(head, |sum, size| sum.checked_add(*size))?
            != length
    {
        return None;
    }
    let payload = pages.payload(local, length)?;
    let mut rest = &payload[head..];
    let mut columns = sizes.iter().map(|size| {
        let (column, more) = rest.split_at(*size);
        rest = more;
        column
    });
    columns.next();
    let mut text = || Some(std::str::from_utf8(columns.next()?).ok()?.to_owned());
    let (resource, namespace, name) = (text()?, text()?, text()?);
    let record = Record {
        revision,
        resource,
        namespace,
        name,
        verb: u8::try_from(number(verb, columns.next()?)).ok()?,
        body: columns.next()?.to_vec(),
    };
    let checksum = u32::try_from(number(checksum, columns.next()?)).ok()?;
    Some((record, checksum))
}

/// How many bytes a column of this kind takes.
fn width(kind: u64) -> usize {
    match kind {
        1..=4 => usize::try_from(kind).unwrap_or(0),
        5 => 6,
        6 | 7 => 8,
        0..12 => 0,
        _ => usize::try_from((kind - 12) / 2).unwrap_or(usize::MAX),
    }
}

fn number(kind: u64, bytes: &[u8]) -> i64 {
    match kind {
        8 => 0,
        9 => 1,
        _ => {
            let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
            let start = if negative { -1 } else { 0 };
            bytes
                .iter()
                .fold(start, |sum, byte| (sum << 8) | i64::from(*byte))
        }
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        if index == 8 {
            return Some(((value << 8) | u64::from(*byte), 9));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
