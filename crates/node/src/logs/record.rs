//! One record of a log file: `<time> <stream> <tag> <content>\n`.

use jiff::Timestamp;

use super::Stream;

/// `2026-01-02T03:04:05.000000006Z`: fixed width, so that times compare as bytes.
pub(super) const TIME_LENGTH: usize = 30;
/// Time, two spaces, the stream's six letters, the tag and its spaces.
pub(super) const PREFIX_LENGTH: usize = TIME_LENGTH + 10;
/// Content of one record; a longer line is cut into several.
pub(super) const CONTENT_MAX: usize = 16 << 10;

pub(super) type Time = [u8; TIME_LENGTH];

/// The bytes before a record's content.
pub(super) fn prefix(time: &Time, stream: Stream, whole: bool) -> [u8; PREFIX_LENGTH] {
    let mut prefix = [b' '; PREFIX_LENGTH];
    prefix[..TIME_LENGTH].copy_from_slice(time);
    prefix[TIME_LENGTH + 1..TIME_LENGTH + 7].copy_from_slice(match stream {
        Stream::Stdout => b"stdout",
        Stream::Stderr => b"stderr",
    });
    prefix[TIME_LENGTH + 8] = if whole { b'F' } else { b'P' };
    prefix
}

pub(super) fn now() -> Time {
    format_time(Timestamp::now())
}

/// Formats by hand: the general formatter trims zeros and is slower than all else that the writer
/// does.
pub(super) fn format_time(at: Timestamp) -> Time {
    let utc = at.to_zoned(jiff::tz::TimeZone::UTC).datetime();
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    let mut put = |range: std::ops::Range<usize>, value: i64| {
        let mut rest = value.unsigned_abs();
        for position in range.rev() {
            text[position] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
    };
    put(0..4, i64::from(utc.year().max(0)));
    put(5..7, i64::from(utc.month()));
    put(8..10, i64::from(utc.day()));
    put(11..13, i64::from(utc.hour()));
    put(14..16, i64::from(utc.minute()));
    put(17..19, i64::from(utc.second()));
    put(20..29, i64::from(utc.subsec_nanosecond()));
    text
}

/// A record as it stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) time: &'a [u8],
    pub(super) stream: Stream,
    /// The line ends with this record.
    pub(super) whole: bool,
    pub(super) content: &'a [u8],
}

/// Reads a record, given without its newline. `None` for what no writer of ours wrote.
pub(super) fn parse(line: &[u8]) -> Option<Record<'_>> {
    if line.len() < PREFIX_LENGTH || line[TIME_LENGTH - 1] != b'Z' || line[TIME_LENGTH] != b' ' {
        return None;
    }
    let stream = match &line[TIME_LENGTH + 1..TIME_LENGTH + 7] {
        b"stdout" => Stream::Stdout,
        b"stderr" => Stream::Stderr,
        _ => return None,
    };
    let whole = match &line[TIME_LENGTH + 7..PREFIX_LENGTH] {
        b" F " => true,
        b" P " => false,
        _ => return None,
    };
    Some(Record {
        time: &line[..TIME_LENGTH],
        stream,
        whole,
        content: &line[PREFIX_LENGTH..],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_width_and_all_their_digits() {
        let at: Timestamp = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
        assert_eq!(&format_time(at), b"2026-01-02T03:04:05.000000006Z");
        let whole: Timestamp = "2026-12-31T23:59:59Z".parse().unwrap();
        assert_eq!(&format_time(whole), b"2026-12-31T23:59:59.000000000Z");
    }

    #[test]
    fn what_is_written_is_read() {
        let time = *b"2026-01-02T03:04:05.000000006Z";
        let mut line = prefix(&time, Stream::Stderr, false).to_vec();
        assert_eq!(line, b"2026-01-02T03:04:05.000000006Z stderr P ");
        line.extend_from_slice(b"a b");
        let want = Record {
            time: &time,
            stream: Stream::Stderr,
            whole: false,
            content: b"a b",
        };
        assert_eq!(parse(&line), Some(want));
    }

    #[test]
    fn what_is_not_ours_is_no_record() {
        for line in [
            &b""[..],
            b"hello",
            b"2026-01-02T03:04:05.000000006Z stdlog F x",
        ] {
            assert_eq!(parse(line), None);
        }
    }
}
