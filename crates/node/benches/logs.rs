//! Logs: how fast a container may write, and how fast it can be followed.

use std::hint::black_box;

use astrago_node::logs::{Limits, Options, Reader, Step, Stream, Writer};
use divan::counter::BytesCount;

fn main() {
    divan::main();
}

/// What a pipe hands over at a time.
const CHUNK: usize = 64 << 10;
const TOTAL: usize = 64 << 20;

fn chunk(line: usize) -> Vec<u8> {
    let mut chunk = Vec::with_capacity(CHUNK);
    while chunk.len() + line <= CHUNK {
        chunk.resize(chunk.len() + line - 1, b'x');
        chunk.push(b'\n');
    }
    chunk
}

fn fill(directory: &std::path::Path, line: usize) {
    let limits = Limits {
        files: 1000,
        ..Limits::default()
    };
    let mut writer = Writer::open(directory, "main", 0, limits).expect("a log can be opened");
    let chunk = chunk(line);
    for _ in 0..TOTAL / chunk.len() {
        writer
            .write_stream(Stream::Stdout, black_box(&chunk))
            .expect("the disk has room");
    }
}

#[divan::bench(args = [20, 100, 1000, 65536], sample_count = 10, sample_size = 1)]
fn write(bencher: divan::Bencher<'_, '_>, line: usize) {
    bencher
        .counter(BytesCount::new(TOTAL))
        .with_inputs(|| tempfile::tempdir().expect("a temporary directory"))
        .bench_values(|directory| {
            fill(directory.path(), line);
            directory
        });
}

#[divan::bench(args = [20, 100, 1000, 65536], sample_count = 10, sample_size = 1)]
fn read(bencher: divan::Bencher<'_, '_>, line: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fill(directory.path(), line);
    bencher.counter(BytesCount::new(TOTAL)).bench(|| {
        let options = Options::default();
        let mut reader =
            Reader::open(&directory.path().join("main"), 0, options).expect("there is a log");
        let mut output = Vec::new();
        while reader.step(&mut output).expect("it can be read") == Step::More {
            black_box(&output);
            output.clear();
        }
    });
}
