//! gRPC's health check (`grpc.health.v1.Health/Check`): one request over plain HTTP/2.
//!
//! The answer that counts is one data frame of a few bytes, so nothing here reads headers, and what a
//! server sends is bounded. A server that does not know the service answers without data.

use std::io::{self, Read, Write};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Without being asked for more, a server sends no larger frames.
const FRAME_MAX: usize = 16 << 10;
const FRAMES_MAX: usize = 64;
/// A message without compression, of two bytes: the field `status` is 1, SERVING.
const SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 1];

/// Whether the server at the other end says that the service serves.
pub(super) fn serves(
    stream: &mut (impl Read + Write),
    host: &str,
    service: &str,
) -> io::Result<bool> {
    let service = service.as_bytes();
    let length = u8::try_from(service.len())
        .ok()
        .filter(|length| *length < 126);
    let length = length.ok_or(io::ErrorKind::InvalidInput)?;
    let mut message = vec![0, 0, 0, 0, 0];
    if length > 0 {
        message[4] = length + 2;
        message.extend([0x0a, length]);
        message.extend(service);
    }
    let mut request = PREFACE.to_vec();
    request.extend(frame(SETTINGS, 0, 0, &[]));
    request.extend(frame(HEADERS, END_HEADERS, 1, &headers(host)));
    request.extend(frame(DATA, END_STREAM, 1, &message));
    stream.write_all(&request)?;

    let mut answer = Vec::new();
    for _ in 0..FRAMES_MAX {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, ..] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        if length > FRAME_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut content = vec![0; length];
        stream.read_exact(&mut content)?;
        match kind {
            SETTINGS if flags & ACK == 0 => stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            PING if flags & ACK == 0 => stream.write_all(&frame(PING, ACK, 0, &content))?,
            DATA => answer.extend(content),
            RESET | GO_AWAY => return Ok(false),
            _ => {}
        }
        if answer.len() >= SERVING.len() {
            return Ok(answer == SERVING);
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            return Ok(false);
        }
    }
    Ok(false)
}

fn frame(kind: u8, flags: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, stream]);
    frame.extend(content);
    frame
}

/// Each header in full, without tables and without compression.
fn headers(host: &str) -> Vec<u8> {
    let all = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/grpc.health.v1.Health/Check"),
        (":authority", host),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("user-agent", "kube-probe/astrago"),
    ];
    let mut block = Vec::new();
    for (name, value) in all {
        block.push(0);
        for text in [name, value] {
            // Names of hosts are addresses here; anything longer would need a longer number.
            let text = &text.as_bytes()[..text.len().min(126)];
            block.push(u8::try_from(text.len()).unwrap_or(0));
            block.extend(text);
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays back what a server says and keeps what it is told.
    struct Played {
        answer: io::Cursor<Vec<u8>>,
        told: Vec<u8>,
    }

    impl Read for Played {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.answer.read(into)
        }
    }

    impl Write for Played {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.told.write(from)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(frames: &[Vec<u8>], service: &str) -> (io::Result<bool>, Vec<u8>) {
        let answer = io::Cursor::new(frames.concat());
        let mut played = Played {
            answer,
            told: Vec::new(),
        };
        let verdict = serves(&mut played, "10.0.0.1", service);
        (verdict, played.told)
    }

    #[rstest::rstest]
    #[case::serving(&[frame(DATA, 0, 1, SERVING)], Some(true))]
    #[case::in_two_parts(&[frame(DATA, 0, 1, &SERVING[..3]), frame(DATA, 0, 1, &SERVING[3..])], Some(true))]
    #[case::not_serving(&[frame(DATA, 0, 1, &[0, 0, 0, 0, 2, 8, 2])], Some(false))]
    #[case::unknown_service(&[frame(HEADERS, END_STREAM | END_HEADERS, 1, b"x")], Some(false))]
    #[case::reset(&[frame(RESET, 0, 1, &[0; 4])], Some(false))]
    #[case::cut_short(&[frame(DATA, 0, 1, &SERVING[..3])], None)]
    #[case::no_grpc(&[b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()], None)]
    fn only_a_server_that_serves_is_good(#[case] frames: &[Vec<u8>], #[case] want: Option<bool>) {
        let settings = [frame(SETTINGS, 0, 0, &[]), frame(PING, 0, 0, &[7; 8])];
        let (verdict, told) = ask(&[&settings[..], frames].concat(), "");
        assert_eq!(verdict.ok(), want);
        assert!(told.starts_with(PREFACE));
        let answers = [frame(SETTINGS, ACK, 0, &[]), frame(PING, ACK, 0, &[7; 8])].concat();
        assert!(told.ends_with(&answers));
    }

    #[test]
    fn the_service_is_named_in_the_request() {
        let (_, told) = ask(&[], "ready");
        let message = frame(DATA, END_STREAM, 1, b"\0\0\0\0\x07\x0a\x05ready");
        assert!(told.ends_with(&message));
        assert!(ask(&[], &"x".repeat(126)).0.is_err());
    }
}
