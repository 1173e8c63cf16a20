//! Server-sent events, as they come in.

use std::io::BufRead;

/// A parser that is fed with whatever arrives.
#[derive(Default)]
pub(crate) struct Events {
    buffer: Vec<u8>,
}

pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Events {
    /// Takes in bytes and returns the events that are complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        // What was looked at before has no end, but for a line break that may be half of one.
        let mut from = self.buffer.len().saturating_sub(1);
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(at) = self.buffer[from..]
            .windows(2)
            .position(|pair| pair == b"\n\n")
        {
            let end = from + at + 2;
            events.extend(parse(&self.buffer[start..end]));
            (start, from) = (end, end);
        }
        self.buffer.drain(..start);
        events
    }
}

fn parse(block: &[u8]) -> Option<Event> {
    let mut event = Event {
        name: "message".to_owned(),
        id: None,
        data: String::new(),
    };
    let mut empty = true;
    for line in block.lines().map_while(Result::ok) {
        let Some((field, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut event.name),
            "id" => event.id = Some(value.to_owned()),
            "data" => {
                if !empty {
                    event.data.push('\n');
                }
                event.data.push_str(value);
                empty = false;
            }
            // Comments keep the connection alive and say nothing.
            _ => {}
        }
    }
    (!empty).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = b": hello\n\nid: 7\nevent: line\ndata: {\"a\":1}\n\ndata: x\ndata: y\n\n";
        for cut in 0..text.len() {
            let mut events = Events::default();
            let mut all = events.push(&text[..cut]);
            all.extend(events.push(&text[cut..]));
            let got: Vec<(&str, Option<&str>, &str)> = all
                .iter()
                .map(|e| (e.name.as_str(), e.id.as_deref(), e.data.as_str()))
                .collect();
            assert_eq!(
                got,
                [("line", Some("7"), "{\"a\":1}"), ("message", None, "x\ny")]
            );
        }
    }
}
