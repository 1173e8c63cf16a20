//! Finding a name that a program or library exports, in the memory that it is loaded to.
//!
//! Files are left alone: what a path of the container leads to is for the container to say.

use super::memory::{Memory, Source, at};

const PROGRAM_HEADERS: u16 = 64;
const DYNAMIC: u64 = 256;
/// Names of which the hashes begin alike.
const CHAIN: u32 = 4096;

const LOAD: u32 = 1;
const DYNAMIC_SECTION: u32 = 2;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const HASHES: u64 = 0x6fff_fef5;

/// The table of exported names.
pub(super) struct Exports {
    bias: u64,
    strings: u64,
    symbols: u64,
    hashes: u64,
}

impl Exports {
    /// Of what is loaded at `base`.
    pub(super) fn of<S: Source>(memory: &Memory<S>, base: u64) -> Option<Self> {
        let head: [u8; 20] = memory.array(base)?;
        // 64 bits, little-endian; a program or a library.
        if !head.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let movable = match head[16] {
            2 => false,
            3 => true,
            _ => return None,
        };
        let table = at(base, memory.long(at(base, 32))?);
        let size = u64::from(memory.half(at(base, 54))?);
        let count = memory.half(at(base, 56))?.min(PROGRAM_HEADERS);
        let (mut lowest, mut dynamic) = (None, None);
        for index in 0..u64::from(count) {
            let header = at(table, index * size);
            let address = memory.long(at(header, 16))?;
            match memory.word(header)? {
                LOAD => lowest = Some(lowest.map_or(address, |low: u64| low.min(address))),
                DYNAMIC_SECTION => dynamic = Some((address, memory.long(at(header, 40))?)),
                _ => {}
            }
        }
        let bias = if movable {
            base.wrapping_sub(lowest? & !0xfff)
        } else {
            0
        };
        let (dynamic, length) = dynamic?;
        let mut found = [None; 3];
        for index in 0..(length / 16).min(DYNAMIC) {
            let entry = at(at(bias, dynamic), index * 16);
            let value = memory.long(at(entry, 8))?;
            // Some loaders put addresses in the place of offsets.
            let value = if value < base { at(bias, value) } else { value };
            match memory.long(entry)? {
                0 => break,
                STRINGS => found[0] = Some(value),
                SYMBOLS => found[1] = Some(value),
                HASHES => found[2] = Some(value),
                _ => {}
            }
        }
        let [strings, symbols, hashes] = found;
        Some(Self {
            bias,
            strings: strings?,
            symbols: symbols?,
            hashes: hashes?,
        })
    }

    /// Where the named thing is.
    pub(super) fn find<S: Source>(&self, memory: &Memory<S>, name: &str) -> Option<u64> {
        let wanted = name.bytes().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(byte))
        });
        let buckets = memory.word(self.hashes)?;
        let first = memory.word(at(self.hashes, 4))?;
        let filter = memory.word(at(self.hashes, 8))?;
        let table = at(self.hashes, 16 + u64::from(filter) * 8);
        let bucket = u64::from(wanted.checked_rem(buckets)?);
        let begin = memory.word(at(table, bucket * 4))?;
        let chains = at(table, u64::from(buckets) * 4);
        for step in 0..CHAIN {
            let index = begin.checked_add(step)?;
            let hash = memory.word(at(chains, u64::from(index.checked_sub(first)?) * 4))?;
            if hash | 1 == wanted | 1 {
                let symbol = at(self.symbols, u64::from(index) * 24);
                let text = at(self.strings, u64::from(memory.word(symbol)?));
                let text = memory.bytes(text, name.len() + 1)?;
                let section = memory.half(at(symbol, 6))?;
                if section != 0 && text.strip_suffix(b"\0") == Some(name.as_bytes()) {
                    return Some(at(self.bias, memory.long(at(symbol, 8))?));
                }
            }
            if hash & 1 == 1 {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::noise;
    use super::*;

    #[test]
    fn noise_has_no_names_and_is_left_soon() {
        for seed in 0..100 {
            assert!(Exports::of(&noise(seed), 0x1000 * seed).is_none());
            let exports = Exports {
                bias: seed,
                strings: seed << 20,
                symbols: seed << 30,
                hashes: seed << 40,
            };
            assert_eq!(exports.find(&noise(seed), "_PyRuntime"), None);
        }
    }
}
