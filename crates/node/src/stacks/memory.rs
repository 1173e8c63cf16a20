//! The memory of another process, read in small bounded pieces.

use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// What is read of one process at the most.
const READS: u32 = 200_000;
const BYTES: usize = 16 << 20;
const LETTERS: usize = 512;

/// Where the bytes come from.
pub(super) trait Source {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()>;
}

/// `/proc/<pid>/mem`.
pub(super) struct Of(File);

impl Source for Of {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.0.read_exact_at(buffer, address).ok()
    }
}

pub(super) struct Memory<S> {
    source: S,
    reads: Cell<u32>,
    bytes: Cell<usize>,
    deadline: Instant,
}

impl Memory<Of> {
    pub(super) fn of(process: &Path, deadline: Instant) -> Option<Self> {
        Some(Self::new(
            Of(File::open(process.join("mem")).ok()?),
            deadline,
        ))
    }
}

impl<S: Source> Memory<S> {
    pub(super) fn new(source: S, deadline: Instant) -> Self {
        Self {
            source,
            reads: Cell::new(READS),
            bytes: Cell::new(BYTES),
            deadline,
        }
    }

    fn fill(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        self.reads.set(self.reads.get().checked_sub(1)?);
        self.bytes.set(self.bytes.get().checked_sub(buffer.len())?);
        if self.reads.get().is_multiple_of(64) && Instant::now() >= self.deadline {
            self.reads.set(0);
        }
        // Files take no offset that is negative, and no program has an address up there.
        let end = address.checked_add(buffer.len() as u64)?;
        i64::try_from(end).ok()?;
        self.source.read(address, buffer)
    }

    pub(super) fn array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut buffer = [0; N];
        self.fill(address, &mut buffer)?;
        Some(buffer)
    }

    pub(super) fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0; length.min(BYTES)];
        self.fill(address, &mut buffer)?;
        Some(buffer)
    }

    pub(super) fn byte(&self, address: u64) -> Option<u8> {
        self.array::<1>(address).map(|[byte]| byte)
    }

    pub(super) fn half(&self, address: u64) -> Option<u16> {
        self.array(address).map(u16::from_le_bytes)
    }

    pub(super) fn word(&self, address: u64) -> Option<u32> {
        self.array(address).map(u32::from_le_bytes)
    }

    pub(super) fn long(&self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// A pointer; `None` also for one that leads nowhere.
    pub(super) fn pointer(&self, address: u64) -> Option<u64> {
        self.long(address).filter(|pointer| *pointer != 0)
    }

    /// Letters of one, two or four bytes each.
    pub(super) fn letters(&self, address: u64, count: u64, kind: u8) -> Option<String> {
        // One more than is shown, so that it shows that there was more.
        let count = usize::try_from(count)
            .unwrap_or(usize::MAX)
            .min(LETTERS + 1);
        let bytes = self.bytes(address, count * usize::from(kind))?;
        let text: String = match kind {
            1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
            2 => {
                let units = bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|unit| u16::from_le_bytes(*unit));
                char::decode_utf16(units)
                    .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect()
            }
            4 => {
                let units = bytes
                    .as_chunks()
                    .0
                    .iter()
                    .map(|unit| u32::from_le_bytes(*unit));
                units
                    .map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
                    .collect()
            }
            _ => return None,
        };
        Some(super::shown(&text, LETTERS))
    }
}

/// `base + offset`, which a forged offset may lead out of the world.
pub(super) fn at(base: u64, offset: u64) -> u64 {
    base.wrapping_add(offset)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;

    /// Memory in which every address holds something.
    pub(crate) struct Noise(pub(crate) u64);

    impl Source for Noise {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
            for (index, byte) in buffer.iter_mut().enumerate() {
                let mixed = (address + index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.0;
                *byte = (mixed >> 32).to_le_bytes()[0];
            }
            Some(())
        }
    }

    pub(crate) fn noise(seed: u64) -> Memory<Noise> {
        Memory::new(Noise(seed), Instant::now() + Duration::from_mins(1))
    }

    #[test]
    fn reading_comes_to_its_end() {
        let memory = noise(1);
        let read = (0..u64::MAX).take_while(|at| memory.byte(*at).is_some());
        assert_eq!(read.count(), READS as usize);
        let memory = noise(1);
        assert!(memory.bytes(0, usize::MAX).is_some());
        assert!(memory.byte(0).is_none());
        assert!(noise(1).long(u64::MAX - 3).is_none());
    }

    #[test]
    fn letters_of_all_sizes_become_text_that_can_be_shown() {
        struct Bytes(Vec<u8>);
        impl Source for Bytes {
            fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
                let from = usize::try_from(address).ok()?;
                buffer.copy_from_slice(self.0.get(from..from + buffer.len())?);
                Some(())
            }
        }
        let read = |bytes: &[u8], count, kind| {
            let deadline = Instant::now() + Duration::from_mins(1);
            Memory::new(Bytes(bytes.to_vec()), deadline).letters(0, count, kind)
        };
        assert_eq!(read(b"ab\x1b[2J", 6, 1).unwrap(), "ab\u{fffd}[2J");
        assert_eq!(read(&[0xe9], 1, 1).unwrap(), "é");
        assert_eq!(read(&[0x42, 0x30, 0, 0xd8], 2, 2).unwrap(), "あ\u{fffd}");
        assert_eq!(read(&[0, 0xf6, 1, 0], 1, 4).unwrap(), "😀");
        assert_eq!(read(&[0; 4], 1, 3), None);
        let long = read(&[b'x'; 4096], 4096, 1).unwrap();
        assert_eq!(long.chars().count(), LETTERS + 1);
    }
}
