//! The stacks of a Python, read from its memory.
//!
//! From 3.13 on it publishes where everything is. Before, that is a table: what `offsetof` gives for the
//! headers of each version, which do not change within one. Builds for debugging have other layouts; what
//! is read of them makes no sense, and is left out.

use super::elf::Exports;
use super::lines::Table;
use super::memory::{Memory, Source, at};
use super::{FRAMES, Frame, Thread};

/// How many threads are counted, and interpreters looked at.
const COUNTED: usize = 4096;
const INTERPRETERS: usize = 4;
/// Frames that are none of Python's, and those behind what is told.
const VISITED: usize = 4 * FRAMES;
const LINES: u64 = 256 << 10;
/// A stack that changes while it is read is read again.
const ATTEMPTS: u32 = 3;
/// No structure is larger.
const OFFSET: u64 = 1 << 20;

/// Where things are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Layout {
    interpreters: u64,
    next_interpreter: u64,
    threads: u64,
    next_thread: u64,
    /// From 3.11 on.
    native_id: Option<u64>,
    frame: u64,
    /// 3.11 and 3.12: the frame is behind one more pointer.
    inner: Option<u64>,
    previous: u64,
    code: u64,
    /// Up to 3.10 the index of the instruction, then its address.
    instruction: u64,
    /// Who owns a frame; from a certain value on it is none of Python's.
    owner: Option<(u64, u8)>,
    file: u64,
    name: u64,
    first_line: u64,
    lines: u64,
    /// Where a code object has its instructions.
    instructions: Option<u64>,
    /// What every object begins with.
    head: u64,
    /// How many bytes behind it letters begin: of ASCII, and of others.
    letters: [u64; 2],
    /// How far the bits that describe a string are shifted.
    bits: u32,
}

/// A Python that was found in a process.
pub(super) struct Python {
    runtime: u64,
    version: u32,
    layout: Layout,
}

/// Looks for a Python in what is loaded to these addresses.
pub(super) fn find<S: Source>(memory: &Memory<S>, modules: &[u64]) -> Option<Python> {
    modules.iter().find_map(|base| {
        let exports = Exports::of(memory, *base)?;
        let runtime = exports.find(memory, "_PyRuntime")?;
        let version = version(memory, &exports)?;
        let layout = match version >> 16 {
            0x030d.. => published(memory, runtime, version)?,
            version => known(version)?,
        };
        Some(Python {
            runtime,
            version,
            layout,
        })
    })
}

/// The version as `PY_VERSION_HEX` has it. Before 3.11 nothing tells it but what is there.
fn version<S: Source>(memory: &Memory<S>, exports: &Exports) -> Option<u32> {
    if let Some(at) = exports.find(memory, "Py_Version") {
        return memory.word(at);
    }
    let has = |name| exports.find(memory, name).is_some();
    match () {
        () if has("PyModule_AddObjectRef") => Some(0x030a_0000),
        () if has("PyModule_AddType") => Some(0x0309_0000),
        () => None,
    }
}

/// Layouts of versions that publish none.
fn known(version: u32) -> Option<Layout> {
    let old = Layout {
        interpreters: 32,
        next_interpreter: 0,
        threads: 8,
        next_thread: 8,
        frame: 24,
        previous: 24,
        code: 32,
        instruction: 104,
        file: 104,
        name: 112,
        first_line: 40,
        lines: 120,
        head: 16,
        letters: [32, 56],
        bits: 2,
        ..Layout::default()
    };
    let new = Layout {
        interpreters: 40,
        threads: 16,
        native_id: Some(160),
        frame: 56,
        inner: Some(8),
        previous: 48,
        code: 32,
        instruction: 56,
        file: 112,
        name: 128,
        first_line: 72,
        lines: 136,
        instructions: Some(184),
        ..old.clone()
    };
    match version {
        0x0309 => Some(old),
        0x030a => Some(Layout {
            instruction: 96,
            ..old
        }),
        0x030b => Some(new),
        0x030c => Some(Layout {
            threads: 72,
            native_id: Some(144),
            inner: Some(0),
            previous: 8,
            code: 0,
            owner: Some((70, 3)),
            first_line: 68,
            instructions: Some(192),
            letters: [24, 40],
            ..new
        }),
        _ => None,
    }
}

/// The layout that a Python publishes at the beginning of its runtime.
fn published<S: Source>(memory: &Memory<S>, runtime: u64, version: u32) -> Option<Layout> {
    if memory.array(runtime)? != *b"xdebugpy" {
        return None;
    }
    // The structure is the same within a minor version; in later ones it may have grown anywhere.
    let (interpreter, thread, frame, code) = match version >> 16 {
        0x030d => (48, 152, 224, 272),
        0x030e => (48, 176, 248, 312),
        _ => return None,
    };
    let field = |group: u64, index: u64| {
        let offset = memory.long(at(runtime, group + index * 8))?;
        (offset < OFFSET).then_some(offset)
    };
    let free_threaded = memory.long(at(runtime, 16))? != 0;
    Some(Layout {
        interpreters: field(24, 2)?,
        next_interpreter: field(interpreter, 2)?,
        threads: field(interpreter, 3)?,
        next_thread: field(thread, 2)?,
        frame: field(thread, 4)?,
        native_id: Some(field(thread, 6)?),
        inner: None,
        previous: field(frame, 1)?,
        code: field(frame, 2)?,
        instruction: field(frame, 3)?,
        owner: Some((field(frame, 5)?, 3)),
        file: field(code, 1)?,
        name: field(code, 3)?,
        lines: field(code, 4)?,
        first_line: field(code, 5)?,
        instructions: Some(field(code, 9)?),
        head: if free_threaded { 32 } else { 16 },
        letters: [24, 40],
        bits: match (free_threaded, version >> 16) {
            (true, 0x030e..) => 8,
            _ => 2,
        },
    })
}

impl Python {
    pub(super) fn version(&self) -> String {
        let [_, patch, minor, major] = self.version.to_le_bytes();
        match self.layout.native_id {
            Some(_) => format!("{major}.{minor}.{patch}"),
            None => format!("{major}.{minor}"),
        }
    }

    /// The threads of a process, its first one first; and whether there are more than these.
    pub(super) fn threads<S: Source>(
        &self,
        memory: &Memory<S>,
        process: u32,
        most: usize,
    ) -> (Vec<Thread>, bool) {
        let layout = &self.layout;
        let mut states = Vec::new();
        let mut interpreter = memory.pointer(at(self.runtime, layout.interpreters));
        for _ in 0..INTERPRETERS {
            let Some(current) = interpreter else { break };
            let mut state = memory.pointer(at(current, layout.threads));
            while let Some(thread) = state.filter(|_| states.len() < COUNTED) {
                let id = layout
                    .native_id
                    .and_then(|offset| memory.long(at(thread, offset)))
                    .and_then(|id| u32::try_from(id).ok());
                states.push((thread, id));
                state = memory.pointer(at(thread, layout.next_thread));
            }
            interpreter = memory.pointer(at(current, layout.next_interpreter));
        }
        // New ones are put in at the front.
        states.reverse();
        states.sort_by_key(|(_, id)| id.is_some() && *id != Some(process));
        let more = states.len() > most;
        let threads = states.into_iter().take(most);
        let threads = threads.map(|(state, id)| self.thread(memory, state, id));
        (threads.collect(), more)
    }

    fn thread<S: Source>(&self, memory: &Memory<S>, state: u64, id: Option<u32>) -> Thread {
        let mut best = Thread::default();
        for _ in 0..ATTEMPTS {
            let thread = self.attempt(memory, state, id);
            let whole = !thread.truncated;
            if whole || thread.frames.len() >= best.frames.len() {
                best = thread;
            }
            if whole || best.frames.len() >= FRAMES {
                break;
            }
        }
        best
    }

    fn attempt<S: Source>(&self, memory: &Memory<S>, state: u64, id: Option<u32>) -> Thread {
        let layout = &self.layout;
        let mut thread = Thread {
            id,
            ..Thread::default()
        };
        let mut next = memory.pointer(at(state, layout.frame));
        if let Some(inner) = layout.inner {
            next = next.and_then(|frame| memory.pointer(at(frame, inner)));
        }
        let mut visited = 0;
        while let Some(frame) = next {
            visited += 1;
            if visited > VISITED || thread.frames.len() == FRAMES {
                thread.truncated = true;
                break;
            }
            match self.frame(memory, frame) {
                Read::Frame(frame) => thread.frames.push(frame),
                Read::NotPythons => {}
                Read::Changed => {
                    thread.truncated = true;
                    break;
                }
            }
            let Some(previous) = memory.long(at(frame, layout.previous)) else {
                thread.truncated = true;
                break;
            };
            next = Some(previous).filter(|previous| *previous != 0);
        }
        thread
    }

    fn frame<S: Source>(&self, memory: &Memory<S>, frame: u64) -> Read {
        if let Some((owner, foreign)) = self.layout.owner {
            match memory.byte(at(frame, owner)) {
                Some(owner) if owner >= foreign => return Read::NotPythons,
                Some(_) => {}
                None => return Read::Changed,
            }
        }
        self.python_frame(memory, frame)
            .map_or(Read::Changed, Read::Frame)
    }

    fn python_frame<S: Source>(&self, memory: &Memory<S>, frame: u64) -> Option<Frame> {
        let layout = &self.layout;
        // The lowest bits of a reference may say how it is held.
        let code = memory.pointer(at(frame, layout.code))? & !7;
        let text = |offset| self.text(memory, memory.pointer(at(code, offset))?);
        Some(Frame {
            file: text(layout.file)?,
            function: text(layout.name)?,
            line: self.line(memory, frame, code),
        })
    }

    fn line<S: Source>(&self, memory: &Memory<S>, frame: u64, code: u64) -> Option<u32> {
        let layout = &self.layout;
        let first = memory.word(at(code, layout.first_line))?.cast_signed();
        let table = memory.pointer(at(code, layout.lines))?;
        let length = memory.long(at(table, layout.head))?.min(LINES);
        let bytes = at(table, layout.head + 16);
        let bytes = memory.bytes(bytes, usize::try_from(length).ok()?)?;
        let instruction = at(frame, layout.instruction);
        let (table, offset) = if let Some(instructions) = layout.instructions {
            let begin = at(code, instructions);
            let offset = memory.long(instruction)?.wrapping_sub(begin);
            (Table::Locations, offset.cast_signed())
        } else {
            let index = i64::from(memory.word(instruction)?.cast_signed());
            match self.version >> 16 {
                0x030a => (Table::Ranges, index * 2),
                _ => (Table::Steps, index),
            }
        };
        table.line(&bytes, first, offset)
    }

    fn text<S: Source>(&self, memory: &Memory<S>, string: u64) -> Option<String> {
        let layout = &self.layout;
        let length = memory.long(at(string, layout.head))?;
        let state = memory.word(at(string, layout.head + 16))? >> layout.bits;
        let kind = u8::try_from(state & 7).ok()?;
        let (compact, ascii) = (state & 8 != 0, state & 16 != 0);
        if !compact {
            return None;
        }
        let begin = layout.head + layout.letters[usize::from(!ascii)];
        memory.letters(at(string, begin), length, kind)
    }
}

enum Read {
    Frame(Frame),
    /// One that C code has put there.
    NotPythons,
    /// It is no longer there, or never was.
    Changed,
}

#[cfg(test)]
mod tests {
    use super::super::THREADS;
    use super::super::memory::tests::noise;
    use super::*;

    #[test]
    fn noise_is_no_python_and_is_left_soon() {
        for seed in 0..20 {
            assert!(find(&noise(seed), &[seed, seed << 12]).is_none());
            for version in [0x0309, 0x030a, 0x030b, 0x030c] {
                let python = Python {
                    runtime: seed << 16,
                    version: version << 16,
                    layout: known(version).unwrap(),
                };
                let (threads, _) = python.threads(&noise(seed), 1, THREADS);
                assert!(threads.len() <= THREADS);
            }
        }
    }
}
