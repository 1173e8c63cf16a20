//! The audit log: who did what, one JSON object per line.
//!
//! Reads are left out; bodies are never written. Lines are written by a thread of their own, so a slow disk
//! delays no answer; when it cannot keep up, lines are dropped and counted in the next one.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use serde_json::{Value, json};

const WAITING: usize = 4096;

pub(crate) struct Audit {
    lines: SyncSender<Value>,
    dropped: AtomicU64,
}

impl Audit {
    /// Appends to the file at `path`, which only its owner may read.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)?;
        let (lines, receiver) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("audit-log".to_owned())
            .spawn(move || write(file, &receiver))?;
        Ok(Self {
            lines,
            dropped: AtomicU64::new(0),
        })
    }

    pub(crate) fn record(&self, mut line: Value) {
        let missed = self.dropped.swap(0, Ordering::Relaxed);
        if missed > 0 {
            line["droppedBefore"] = json!(missed);
        }
        if self.lines.try_send(line).is_err() {
            self.dropped.fetch_add(missed + 1, Ordering::Relaxed);
        }
    }
}

fn write(file: File, lines: &Receiver<Value>) {
    let mut out = BufWriter::new(file);
    while let Ok(first) = lines.recv() {
        for line in std::iter::once(first).chain(lines.try_iter()) {
            if let Err(error) = writeln!(out, "{line}") {
                tracing::warn!(%error, "failed to write to the audit log");
            }
        }
        let _ = out.flush();
    }
}
