//! A row of the log, and the checksum that says whether it is as it was written.

/// One row, as it lies in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) revision: u64,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) verb: u8,
    pub(super) body: Vec<u8>,
}

impl Record {
    pub(super) fn checksum(&self) -> u32 {
        checksum(
            self.revision,
            [&self.resource, &self.namespace, &self.name],
            self.verb,
            &self.body,
        )
    }

    /// How a person calls the object.
    pub(super) fn subject(&self) -> String {
        subject(&self.resource, &self.namespace, &self.name)
    }
}

pub(super) fn subject(resource: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        format!("{resource} {name:?}")
    } else {
        format!("{resource} {name:?} in namespace {namespace:?}")
    }
}

/// CRC-32 of a row. Every column is in it, so that a row cannot pass for another one either.
pub(super) fn checksum(revision: u64, names: [&str; 3], verb: u8, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.to_le_bytes());
    hasher.update(&[verb]);
    for name in names {
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
    }
    hasher.update(body);
    hasher.finalize()
}

/// How many rows there are, and the sum of their checksums: it is the same in whatever order rows came and went, and differs
/// when one is missing, is too many, or is an older one than it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Digest {
    pub(super) rows: u64,
    pub(super) sum: u64,
}

impl Digest {
    pub(super) fn add(&mut self, checksum: u32) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(checksum.into());
    }

    pub(super) fn remove(&mut self, checksum: u32) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(checksum.into());
    }
}
