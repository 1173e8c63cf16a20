//! Frames on the wire.

use bytes::{Buf, BufMut, Bytes, BytesMut};

const HEADER_BYTES: usize = 8;
/// No client of Kubernetes sends more at once.
const FRAME_MAX: usize = 2 << 20;
const VERSION: u16 = 3;
const LAST: u8 = 1;

const OPEN: u16 = 1;
const REPLY: u16 = 2;
const RESET: u16 = 3;
const PING: u16 = 6;
const FAREWELL: u16 = 7;
const HEADERS: u16 = 8;

#[derive(Debug, PartialEq, Eq)]
pub(in super::super::super) enum Frame {
    Open {
        id: u32,
        block: Bytes,
    },
    Headers {
        block: Bytes,
    },
    Data {
        id: u32,
        bytes: Bytes,
        last: bool,
    },
    /// The sender wants nothing more of this stream.
    Reset {
        id: u32,
    },
    Ping(u32),
    Farewell,
    /// One that needs no reaction.
    Other,
}

/// What was received is not SPDY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super::super) struct Nonsense;

/// Takes the next frame from what was received; `None` if it is not there as a whole.
pub(in super::super::super) fn take(received: &mut BytesMut) -> Result<Option<Frame>, Nonsense> {
    let Some(header) = received.first_chunk::<HEADER_BYTES>().copied() else {
        return Ok(None);
    };
    let [first, second, third, fourth, flags, length @ ..] = header;
    let length =
        usize::from(length[0]) << 16 | usize::from(length[1]) << 8 | usize::from(length[2]);
    if length > FRAME_MAX {
        return Err(Nonsense);
    }
    if received.len() < HEADER_BYTES + length {
        received.reserve(HEADER_BYTES + length - received.len());
        return Ok(None);
    }
    received.advance(HEADER_BYTES);
    let content = received.split_to(length).freeze();
    if first & 0x80 == 0 {
        let id = u32::from_be_bytes([first, second, third, fourth]);
        return Ok(Some(Frame::Data {
            id,
            bytes: content,
            last: flags & LAST != 0,
        }));
    }
    if u16::from_be_bytes([first & 0x7f, second]) != VERSION {
        return Err(Nonsense);
    }
    control_frame(u16::from_be_bytes([third, fourth]), content).map(Some)
}

fn control_frame(kind: u16, mut content: Bytes) -> Result<Frame, Nonsense> {
    let mut number = || content.try_get_u32().map_err(|_| Nonsense);
    Ok(match kind {
        OPEN => {
            let id = number()? & 0x7fff_ffff;
            // The associated stream, the priority and an unused byte are of no use here.
            number()?;
            content.try_get_u16().map_err(|_| Nonsense)?;
            Frame::Open { id, block: content }
        }
        REPLY | HEADERS => {
            number()?;
            Frame::Headers { block: content }
        }
        RESET => Frame::Reset {
            id: number()? & 0x7fff_ffff,
        },
        PING => Frame::Ping(number()?),
        FAREWELL => Frame::Farewell,
        _ => Frame::Other,
    })
}

/// The header of a data frame; the data follows it.
pub(in super::super::super) fn data(id: u32, length: usize, last: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES);
    frame.put_u32(id);
    frame.put_u8(if last { LAST } else { 0 });
    frame.put_uint(length as u64, 3);
    frame.freeze()
}

pub(in super::super::super) fn reply(id: u32, block: &[u8]) -> Bytes {
    let mut frame = control(REPLY, 4 + block.len());
    frame.put_u32(id);
    frame.put_slice(block);
    frame.freeze()
}

pub(in super::super::super) fn ping(id: u32) -> Bytes {
    let mut frame = control(PING, 4);
    frame.put_u32(id);
    frame.freeze()
}

fn control(kind: u16, length: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEADER_BYTES + length);
    frame.put_u16(0x8000 | VERSION);
    frame.put_u16(kind);
    frame.put_u8(0);
    frame.put_uint(length as u64, 3);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_whole_however_they_are_cut() {
        let mut wire = data(5, 3, true).to_vec();
        wire.extend_from_slice(b"abc");
        wire.extend_from_slice(&ping(7));
        let mut received = BytesMut::new();
        let mut frames = Vec::new();
        for byte in wire {
            received.put_u8(byte);
            frames.extend(take(&mut received).unwrap());
        }
        let bytes = Bytes::from_static(b"abc");
        assert_eq!(
            frames,
            [
                Frame::Data {
                    id: 5,
                    bytes,
                    last: true
                },
                Frame::Ping(7)
            ]
        );
    }

    #[test]
    fn nonsense_ends_the_connection() {
        let mut huge = BytesMut::from(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff][..]);
        assert_eq!(take(&mut huge), Err(Nonsense));
        let mut version = BytesMut::from(&[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1][..]);
        assert_eq!(take(&mut version), Err(Nonsense));
        let mut short = BytesMut::from(&[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0][..]);
        assert_eq!(take(&mut short), Err(Nonsense));
    }
}
