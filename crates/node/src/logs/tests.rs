//! Writer and reader together.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use proptest::prelude::*;

use super::{Limits, Options, Reader, Retention, Step, Stream, Writer, collect, stream};

const SMALL: Limits = Limits {
    file_bytes: 4096,
    files: 1000,
    attempts: 5,
};

fn read(directory: &Path, attempt: u32, options: Options) -> String {
    let mut reader = Reader::open(&directory.join("main"), attempt, options).unwrap();
    let mut output = Vec::new();
    while reader.step(&mut output).unwrap() == Step::More {}
    String::from_utf8(output).unwrap()
}

fn write(directory: &Path, limits: Limits, text: &str) -> Writer {
    let mut writer = Writer::open(directory, "main", 0, limits).unwrap();
    writer
        .write_stream(Stream::Stdout, text.as_bytes())
        .unwrap();
    writer
}

fn numbered(range: std::ops::Range<u32>) -> String {
    range
        .map(|number| ["line ", &number.to_string(), "\n"].concat())
        .collect()
}

#[test]
fn a_log_is_live_line_by_line_and_ends_with_a_newline() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = write(directory.path(), SMALL, "one\ntw");
    assert_eq!(read(directory.path(), 0, Options::default()), "one\n");
    writer.flush().unwrap();
    assert_eq!(read(directory.path(), 0, Options::default()), "one\ntw\n");
    writer.write_stream(Stream::Stdout, b"o\nthree").unwrap();
    drop(writer);
    assert_eq!(
        read(directory.path(), 0, Options::default()),
        "one\ntwo\nthree\n"
    );
}

#[test]
fn streams_do_not_mix_within_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = write(directory.path(), SMALL, "50%");
    writer.flush().unwrap();
    writer.write_stream(Stream::Stderr, b"warning\n").unwrap();
    writer.write_stream(Stream::Stdout, b" 100%\n").unwrap();
    drop(writer);
    let all = read(directory.path(), 0, Options::default());
    assert_eq!(all, "50%\nwarning\n 100%\n");
    let only = Options {
        stream: Some(Stream::Stdout),
        ..Options::default()
    };
    assert_eq!(read(directory.path(), 0, only), "50% 100%\n");
}

#[rstest::rstest]
#[case::none(0, "")]
#[case::one(1, "line 999\n")]
#[case::across_files(200, "")]
#[case::more_than_there_are(5000, "")]
fn a_tail_counts_lines_across_rotation(#[case] count: u32, #[case] want: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(directory.path(), "main", 0, SMALL).unwrap();
    for number in 0..1000 {
        writer
            .write_stream(Stream::Stdout, format!("line {number}\n").as_bytes())
            .unwrap();
    }
    drop(writer);
    assert!(fs::read_dir(directory.path().join("main")).unwrap().count() > 5);
    let want = match want {
        "" => numbered(1000 - count.min(1000)..1000),
        text => text.to_owned(),
    };
    let options = Options {
        tail: Some(count.into()),
        ..Options::default()
    };
    assert_eq!(read(directory.path(), 0, options), want);
}

#[test]
fn a_long_line_is_one_line_for_the_tail() {
    let directory = tempfile::tempdir().unwrap();
    let long = "x".repeat(10 << 20);
    let limits = Limits {
        file_bytes: 1 << 20,
        ..SMALL
    };
    let writer = write(directory.path(), limits, &format!("a\n{long}\nb\n"));
    drop(writer);
    let options = Options {
        tail: Some(2),
        ..Options::default()
    };
    assert!(read(directory.path(), 0, options) == format!("{long}\nb\n"));
    let options = Options {
        limit_bytes: Some(7),
        ..Options::default()
    };
    assert_eq!(read(directory.path(), 0, options), "a\nxxxxx");
}

/// However long a line is: what is in memory at a time does not grow with it.
#[test]
fn memory_is_bounded_whatever_the_log_holds() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(directory.path(), "main", 0, Limits::default()).unwrap();
    let blob = vec![0_u8; 1 << 20];
    for _ in 0..10 {
        writer.write_stream(Stream::Stdout, &blob).unwrap();
    }
    writer
        .write_stream(Stream::Stdout, &vec![b'\n'; 1 << 20])
        .unwrap();
    assert!(writer.memory() < 256 << 10, "{} bytes", writer.memory());
    drop(writer);
    let options = Options {
        timestamps: true,
        ..Options::default()
    };
    let mut reader = Reader::open(&directory.path().join("main"), 0, options).unwrap();
    let mut output = Vec::new();
    let mut total = 0;
    while reader.step(&mut output).unwrap() == Step::More {
        assert!(output.len() + reader.memory() < 1 << 20);
        total += output.len();
        output.clear();
    }
    // The blob is one line; each line has its time, a space and its newline.
    assert_eq!(total, (10 << 20) + (1 << 20) * 32);
}

#[test]
fn times_are_shown_once_per_line_and_select_lines() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = write(directory.path(), SMALL, "old\nbeg");
    writer.flush().unwrap();
    let between = jiff::Timestamp::now();
    writer.write_stream(Stream::Stdout, b"un\nnew\n").unwrap();
    drop(writer);
    let options = Options {
        timestamps: true,
        ..Options::default()
    };
    let text = read(directory.path(), 0, options);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[1].ends_with("Z begun") && lines[1].matches('Z').count() == 1,
        "{text}"
    );
    lines[0][..30].parse::<jiff::Timestamp>().unwrap();
    // The line that began before that moment is old as a whole.
    let options = Options {
        since: Some(between),
        ..Options::default()
    };
    assert_eq!(read(directory.path(), 0, options), "new\n");
}

#[test]
fn a_record_that_a_crash_cut_is_removed_and_the_log_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    drop(write(directory.path(), SMALL, "one\n"));
    let path = directory.path().join("main/0.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(b"2026-01-02T03:04:05.0000");
    fs::write(&path, bytes).unwrap();
    drop(write(directory.path(), SMALL, "two\n"));
    assert_eq!(read(directory.path(), 0, Options::default()), "one\ntwo\n");
}

#[test]
fn old_files_and_attempts_go() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits {
        file_bytes: 4096,
        files: 3,
        attempts: 2,
    };
    for attempt in 0..4 {
        let mut writer = Writer::open(directory.path(), "main", attempt, limits).unwrap();
        for _ in 0..100 {
            writer.write_stream(Stream::Stdout, &[b'x'; 1000]).unwrap();
            writer.write_stream(Stream::Stdout, b"\n").unwrap();
        }
    }
    let main = directory.path().join("main");
    assert_eq!(super::attempts(&main).unwrap(), [2, 3]);
    assert_eq!(fs::read_dir(main).unwrap().count(), 6);
}

#[test]
fn logs_of_pods_that_are_gone_go_by_age_and_size() {
    let directory = tempfile::tempdir().unwrap();
    let pod = |uid: &str| crate::layout::pod_logs(directory.path(), "team", "job", uid);
    for uid in ["live", "dead"] {
        drop(write(&pod(uid), SMALL, "text\n"));
    }
    let written = write(&pod("written"), SMALL, "text\n");
    let live = BTreeSet::from(["live".to_owned()]);
    let keep = Retention::default();
    assert_eq!(collect(directory.path(), &live, keep).unwrap(), 0);
    assert_eq!(
        collect(directory.path(), &live, Retention { bytes: 0, ..keep }).unwrap(),
        1
    );
    assert!(!pod("dead").exists() && pod("live").exists() && pod("written").exists());
    drop(written);
    let old = Retention {
        age: Duration::ZERO,
        ..keep
    };
    assert_eq!(collect(directory.path(), &live, old).unwrap(), 1);
}

#[tokio::test]
async fn following_ends_when_the_writer_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let writer = write(directory.path(), SMALL, "one\n");
    let options = Options {
        follow: true,
        ..Options::default()
    };
    let text = stream(&directory.path().join("main"), 0, options)
        .await
        .unwrap();
    let mut text = Box::pin(text);
    assert_eq!(text.next().await.unwrap().unwrap(), "one\n");
    let writing = tokio::task::spawn_blocking(move || {
        let mut writer = writer;
        writer.write_stream(Stream::Stdout, b"two\n").unwrap();
        drop(writer);
    });
    let mut rest = Vec::new();
    while let Some(chunk) = text.next().await {
        rest.extend_from_slice(&chunk.unwrap());
    }
    assert_eq!(rest, b"two\n");
    writing.await.unwrap();
}

#[tokio::test]
async fn a_reader_that_stalls_loses_nothing_until_the_bound() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits {
        file_bytes: 4096,
        files: 2,
        attempts: 1,
    };
    let mut writer = write(directory.path(), limits, "first\n");
    let options = Options {
        follow: true,
        ..Options::default()
    };
    let text = stream(&directory.path().join("main"), 0, options)
        .await
        .unwrap();
    let mut text = Box::pin(text);
    assert_eq!(text.next().await.unwrap().unwrap(), "first\n");
    // About twelve files, of which two would be kept if nobody read.
    let want = numbered(0..1000);
    for line in want.split_inclusive('\n') {
        writer
            .write_stream(Stream::Stdout, line.as_bytes())
            .unwrap();
    }
    drop(writer);
    let mut got = Vec::new();
    while let Some(chunk) = text.next().await {
        got.extend_from_slice(&chunk.unwrap());
    }
    assert_eq!(String::from_utf8(got).unwrap(), want);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever the chunks, the rotation and the pace of the reader: exactly the bytes that were
    /// written, cut into the lines that were written.
    #[test]
    fn a_follower_gets_every_line_exactly_once(
        lines in prop::collection::vec(prop::collection::vec(1_u8..=255, 0..600), 1..60),
        long in prop::option::of((0_usize..60, 16_000_usize..70_000)),
        cuts in prop::collection::vec(1_usize..5000, 1..20),
        file_bytes in 500_u64..40_000,
        flushes in any::<bool>(),
    ) {
        let mut want = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            want.extend(line.iter().map(|byte| if *byte == b'\n' { b'\r' } else { *byte }));
            if let Some((at, length)) = long && at == index {
                want.resize(want.len() + length, b'y');
            }
            want.push(b'\n');
        }
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { file_bytes, files: 100_000, attempts: 1 };
        let mut writer = Writer::open(directory.path(), "main", 0, limits).unwrap();
        let main = directory.path().join("main");
        let options = Options { follow: true, ..Options::default() };
        let mut reader = Reader::open(&main, 0, options).unwrap();
        let source = want.clone();
        let writing = std::thread::spawn(move || {
            let mut rest = &source[..];
            for cut in cuts.iter().cycle() {
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                writer.write_stream(Stream::Stdout, chunk).unwrap();
                if flushes {
                    writer.flush().unwrap();
                }
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
        });
        let mut got = Vec::new();
        while reader.step(&mut got).unwrap() != Step::End {
            std::thread::yield_now();
        }
        writing.join().unwrap();
        prop_assert!(got == want, "{} bytes instead of {}", got.len(), want.len());
        // And the same again for whoever comes later, and for each count of last lines.
        let mut again = Vec::new();
        let mut reader = Reader::open(&main, 0, Options::default()).unwrap();
        while reader.step(&mut again).unwrap() == Step::More {}
        prop_assert!(again == want);
        let tail = Options { tail: Some(3), ..Options::default() };
        let mut reader = Reader::open(&main, 0, tail).unwrap();
        let mut last = Vec::new();
        while reader.step(&mut last).unwrap() == Step::More {}
        let count = want.split_inclusive(|byte| *byte == b'\n').count();
        let from: Vec<u8> = want
            .split_inclusive(|byte| *byte == b'\n')
            .skip(count.saturating_sub(3))
            .flatten()
            .copied()
            .collect();
        prop_assert!(last == from);
    }
}
