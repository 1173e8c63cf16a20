//! Whole lines of a stream that comes in pieces.

/// A longer line is cut; it is data that somebody printed by mistake.
const LONGEST_LINE: usize = 64 * 1024;

/// Makes whole lines of what comes in pieces. A line that is too long becomes several, however it was cut.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    /// How much of what was begun [`drawing`](Self::drawing) has told.
    pub(super) told: usize,
}

impl Lines {
    /// The lines that a piece completes.
    pub(super) fn push(&mut self, mut piece: &[u8]) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.begun.len() + piece.len());
        while !piece.is_empty() {
            let end = memchr::memchr(b'\n', piece).map_or(piece.len(), |at| at + 1);
            let end = end.min(LONGEST_LINE - self.begun.len());
            self.begun.extend_from_slice(&piece[..end]);
            piece = &piece[end..];
            if self.begun.ends_with(b"\n") {
                whole.append(&mut self.begun);
                self.told = 0;
            } else if self.begun.len() == LONGEST_LINE {
                whole.extend(self.end());
            }
        }
        whole
    }

    /// The newest whole drawing of a progress bar, which draws on its line again and again before that ends;
    /// a carriage return ends a drawing.
    pub(super) fn drawing(&mut self) -> Option<&[u8]> {
        let until = self.told + memchr::memrchr(b'\r', &self.begun[self.told..])?;
        let before = memchr::memrchr(b'\r', &self.begun[..until]);
        self.told = until + 1;
        Some(&self.begun[before.map_or(0, |at| at + 1)..until])
    }

    /// What was begun, as a line.
    pub(super) fn end(&mut self) -> Vec<u8> {
        self.told = 0;
        let mut line = std::mem::take(&mut self.begun);
        if !line.is_empty() {
            line.push(b'\n');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_come() {
        let long = "x".repeat(LONGEST_LINE + 10);
        let text = format!("one\n\n{long}\nlast");
        let want = format!(
            "one\n\n{}\n{}\nlast\n",
            &long[..LONGEST_LINE],
            &long[LONGEST_LINE..]
        );
        for size in [1000, 4096, LONGEST_LINE, text.len()] {
            let mut lines = Lines::default();
            let pieces = text.as_bytes().chunks(size);
            let mut whole: Vec<u8> = pieces.flat_map(|piece| lines.push(piece)).collect();
            whole.extend(lines.end());
            assert!(whole == want.as_bytes(), "in pieces of {size}");
        }
    }

    #[test]
    fn a_progress_bar_is_read_while_it_draws() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for piece in ["00Z start\r 1/9", " [ loss=3\r 2/9 [ loss=2"] {
            assert!(lines.push(piece.as_bytes()).is_empty());
            seen.extend(lines.drawing().map(<[u8]>::to_vec));
        }
        assert_eq!(seen, [&b"00Z start"[..], b" 1/9 [ loss=3"]);
        let told = lines.told;
        let whole = lines.push(b"\r 3/9 [ loss=1\nnext\n");
        assert_eq!(&whole[told..], b" 2/9 [ loss=2\r 3/9 [ loss=1\nnext\n");
        assert!(lines.drawing().is_none());
        assert_eq!(lines.told, 0);
    }
}
