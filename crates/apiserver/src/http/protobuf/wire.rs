//! The protobuf wire format: fields of numbers and bytes.

use super::{Error, Result};

/// Reads the fields of one message. Borrows everything, so what it costs is what was sent.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Reader<'a> {
    pub(super) fn new(raw: &'a [u8]) -> Self {
        Self { rest: raw }
    }

    /// The next field, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire<'a>)>> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.number()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Error::Garbled)?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.number()?),
            1 => Wire::Number(self.fixed(8)?),
            2 => {
                let length = usize::try_from(self.number()?).map_err(|_| Error::Garbled)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Number(self.fixed(4)?),
            _ => return Err(Error::Garbled),
        };
        Ok(Some((number, wire)))
    }

    fn number(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 127) << shift;
            if byte & 128 == 0 {
                return Ok(value);
            }
        }
        Err(Error::Garbled)
    }

    fn fixed(&mut self, size: usize) -> Result<u64> {
        let bytes = self.take(size)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Garbled)?;
        self.rest = rest;
        Ok(taken)
    }
}
