//! Header blocks: length-prefixed pairs in one long zlib stream per direction, which begins with a
//! dictionary that both sides know.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Buf;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

/// The most that one block may decompress to.
const BLOCK_MAX: usize = 64 << 10;

pub(in super::super::super) struct Decoder(Decompress);

impl Decoder {
    pub(in super::super::super) fn new() -> Self {
        Self(Decompress::new(true))
    }

    /// `None` for what is no header block.
    pub(in super::super::super) fn decode(
        &mut self,
        mut block: &[u8],
    ) -> Option<BTreeMap<String, String>> {
        let mut plain = Vec::with_capacity(4096);
        while !block.is_empty() {
            if plain.len() == plain.capacity() {
                plain.reserve(4096);
            }
            if plain.len() > BLOCK_MAX {
                return None;
            }
            let (before_in, before_out) = (self.0.total_in(), plain.len());
            match self
                .0
                .decompress_vec(block, &mut plain, FlushDecompress::Sync)
            {
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&DICTIONARY).ok()?;
                }
                Err(_) => return None,
            }
            let used = usize::try_from(self.0.total_in() - before_in).ok()?;
            if used == 0 && plain.len() == before_out && before_in > 0 {
                return None;
            }
            block = &block[used..];
        }
        parse(&plain)
    }
}

fn parse(mut plain: &[u8]) -> Option<BTreeMap<String, String>> {
    let text = |plain: &mut &[u8]| -> Option<String> {
        let length = usize::try_from(plain.try_get_u32().ok()?).ok()?;
        let text = plain.get(..length)?;
        plain.advance(length);
        String::from_utf8(text.to_vec()).ok()
    };
    let count = plain.try_get_u32().ok()?;
    let mut headers = BTreeMap::new();
    for _ in 0..count {
        let name = text(&mut plain)?.to_ascii_lowercase();
        headers.insert(name, text(&mut plain)?);
    }
    Some(headers)
}

pub(in super::super::super) struct Encoder(Compress);

impl Encoder {
    pub(in super::super::super) fn new() -> Option<Self> {
        let mut compress = Compress::new(Compression::fast(), true);
        compress.set_dictionary(&DICTIONARY).ok()?;
        Some(Self(compress))
    }

    /// A block without headers, which is all that replies need.
    pub(in super::super::super) fn empty(&mut self) -> Option<Vec<u8>> {
        let mut block = Vec::with_capacity(128);
        self.0
            .compress_vec(&0_u32.to_be_bytes(), &mut block, FlushCompress::Sync)
            .ok()?;
        Some(block)
    }
}

/// The dictionary of SPDY/3: names with their lengths, then frequent text without.
static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut dictionary = Vec::new();
    for name in NAMES.split('|') {
        let length = u32::try_from(name.len()).unwrap_or(0);
        dictionary.extend_from_slice(&length.to_be_bytes());
        dictionary.extend_from_slice(name.as_bytes());
    }
    dictionary.extend_from_slice(TEXT.as_bytes());
    dictionary
});

const NAMES: &str = "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|\
accept-language|accept-ranges|age|allow|authorization|cache-control|connection|content-base|\
content-encoding|content-language|content-length|content-location|content-md5|content-range|\
content-type|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|\
if-unmodified-since|last-modified|location|max-forwards|pragma|proxy-authenticate|\
proxy-authorization|range|referer|retry-after|server|te|trailer|transfer-encoding|upgrade|\
user-agent|vary|via|warning|www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|\
set-cookie|keep-alive|origin";

const TEXT: &str = "\
100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request\
401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented\
503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,\
application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=\
gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

#[cfg(test)]
mod tests {
    use super::*;

    fn block(encoder: &mut Encoder, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut plain = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for (name, value) in headers {
            for text in [name, value] {
                plain.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
                plain.extend_from_slice(text.as_bytes());
            }
        }
        let mut block = Vec::with_capacity(1024);
        encoder
            .0
            .compress_vec(&plain, &mut block, FlushCompress::Sync)
            .unwrap();
        block
    }

    /// The standard gives the dictionary's length and checksum.
    #[test]
    fn the_dictionary_is_the_standards() {
        assert_eq!(DICTIONARY.len(), 1423);
        let mut decompress = Compress::new(Compression::fast(), true);
        assert_eq!(decompress.set_dictionary(&DICTIONARY).unwrap(), 0xe3c6_a7c2);
    }

    #[test]
    fn blocks_are_one_stream() {
        let mut encoder = Encoder::new().unwrap();
        let mut decoder = Decoder::new();
        for kind in ["error", "stdin", "stdout", "resize"] {
            let block = block(&mut encoder, &[("Streamtype", kind), ("host", "x")]);
            assert_eq!(decoder.decode(&block).unwrap()["streamtype"], kind);
        }
        let empty = encoder.empty().unwrap();
        assert!(decoder.decode(&empty).unwrap().is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Decoder::new().decode(b"not zlib at all").is_none());
    }
}
