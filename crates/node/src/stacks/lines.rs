//! Which line an instruction of Python belongs to: the tables of three generations.

/// How a code object tells its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// Up to 3.9: steps of bytes and of lines.
    Steps,
    /// 3.10: ranges of bytes with steps of lines.
    Ranges,
    /// From 3.11: locations, each for some instructions.
    Locations,
}

impl Table {
    /// The line of the instruction at so many bytes from the beginning.
    pub(super) fn line(self, table: &[u8], first: i32, offset: i64) -> Option<u32> {
        if offset < 0 {
            return u32::try_from(first).ok();
        }
        let line = match self {
            Self::Steps => Some(steps(table, i64::from(first), offset)),
            Self::Ranges => ranges(table, i64::from(first), offset),
            Self::Locations => locations(table, i64::from(first), offset),
        };
        u32::try_from(line?).ok().filter(|line| *line > 0)
    }
}

fn signed(byte: u8) -> i64 {
    i64::from(byte.cast_signed())
}

fn steps(table: &[u8], mut line: i64, offset: i64) -> i64 {
    let mut at = 0;
    for [bytes, lines] in table.as_chunks().0 {
        at += i64::from(*bytes);
        if at > offset {
            break;
        }
        line += signed(*lines);
    }
    line
}

fn ranges(table: &[u8], mut line: i64, offset: i64) -> Option<i64> {
    let mut end = 0;
    for [bytes, lines] in table.as_chunks().0 {
        end += i64::from(*bytes);
        let nowhere = *lines == 0x80;
        if !nowhere {
            line += signed(*lines);
        }
        if end > offset {
            return (!nowhere).then_some(line);
        }
    }
    None
}

fn locations(table: &[u8], mut line: i64, offset: i64) -> Option<i64> {
    let mut end = 0;
    let mut bytes = table.iter().copied().peekable();
    while let Some(head) = bytes.next() {
        end += (i64::from(head & 7) + 1) * 2;
        let form = (head >> 3) & 15;
        match form {
            13 | 14 => line = line.checked_add(variable(&mut bytes))?,
            10..=12 => line += i64::from(form) - 10,
            _ => {}
        }
        if end > offset {
            return (form != 15).then_some(line);
        }
        // Columns; only the first byte of a location has its highest bit set.
        while bytes.next_if(|byte| byte & 0x80 == 0).is_some() {}
    }
    None
}

/// A signed number in groups of six bits.
fn variable(bytes: &mut impl Iterator<Item = u8>) -> i64 {
    let (mut value, mut shift) = (0_i64, 0);
    for byte in bytes {
        if shift < 36 {
            value |= i64::from(byte & 63) << shift;
        }
        shift += 6;
        if byte & 64 == 0 || shift > 60 {
            break;
        }
    }
    if value & 1 == 1 {
        -(value >> 1)
    } else {
        value >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_python_tells() {
        // `def f(x):\n    y = x\n\n    return y + 1`, defined in line 10 of its file.
        type Case = (&'static str, Table, &'static [u8], i64, Option<u32>);
        let cases: [Case; 12] = [
            ("3.9, first", Table::Steps, &[0, 1, 4, 2], 0, Some(11)),
            ("3.9, last", Table::Steps, &[0, 1, 4, 2], 6, Some(13)),
            ("3.9, before it began", Table::Steps, &[0, 1], -1, Some(10)),
            ("3.9, half a step", Table::Steps, &[0, 1, 4], 6, Some(11)),
            ("3.10, first", Table::Ranges, &[4, 1, 8, 2], 0, Some(11)),
            ("3.10, last", Table::Ranges, &[4, 1, 8, 2], 10, Some(13)),
            ("3.10, behind", Table::Ranges, &[4, 1, 8, 2], 12, None),
            ("3.10, none", Table::Ranges, &[4, 0x80], 0, None),
            (
                "3.11, prologue",
                Table::Locations,
                &[0x80, 0, 0xd8, 8, 9],
                0,
                Some(10),
            ),
            (
                "3.11, next line",
                Table::Locations,
                &[0x80, 0, 0xd8, 8, 9],
                2,
                Some(11),
            ),
            (
                "3.11, far back",
                Table::Locations,
                &[0xe8, 0x07],
                0,
                Some(7),
            ),
            ("3.11, none", Table::Locations, &[0xf8], 0, None),
        ];
        for (name, table, bytes, offset, want) in cases {
            assert_eq!(table.line(bytes, 10, offset), want, "{name}");
        }
    }

    #[test]
    fn any_bytes_are_a_table() {
        for table in [Table::Steps, Table::Ranges, Table::Locations] {
            for byte in 0..=u8::MAX {
                for length in 0..20 {
                    let _ = table.line(&vec![byte; length], i32::MAX, 30);
                }
            }
        }
    }
}
