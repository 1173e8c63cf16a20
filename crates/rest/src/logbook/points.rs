//! Every point of an attempt's curves, in a file beside its log, from which it can be made again at any time.
//!
//! ```text
//! 0 length:u16 name                            the name of the next number, which count from 0
//! 1 number:u16 time:i64 step:f64 value:f64     nanoseconds since the epoch; a point without a step has NaN
//! ```
//! All of it little-endian. What a crash cut off is not read.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::thinned::Point;

const NAME: u8 = 0;
const POINT: u8 = 1;

pub(super) struct Writer {
    path: PathBuf,
    /// Gone after a failure: the points will be read from the log again.
    file: Option<File>,
    names: HashMap<String, u16>,
    begun: Vec<u8>,
}

impl Writer {
    pub(super) fn create(path: PathBuf) -> Self {
        let file = File::create(&path);
        if let Err(error) = &file {
            tracing::warn!(%error, "failed to keep the points of a curve; they will be read from the log");
        }
        Self {
            path,
            file: file.ok(),
            names: HashMap::new(),
            begun: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, name: &str, point: Point) {
        let number = if let Some(number) = self.names.get(name) {
            *number
        } else {
            let number = u16::try_from(self.names.len());
            let (Ok(number), Ok(length)) = (number, u16::try_from(name.len())) else {
                return;
            };
            self.names.insert(name.to_owned(), number);
            self.begun.push(NAME);
            self.begun.extend(length.to_le_bytes());
            self.begun.extend(name.as_bytes());
            number
        };
        let time = i64::try_from(point.time.as_nanosecond()).unwrap_or_default();
        self.begun.push(POINT);
        self.begun.extend(number.to_le_bytes());
        self.begun.extend(time.to_le_bytes());
        self.begun
            .extend(point.step.unwrap_or(f64::NAN).to_le_bytes());
        self.begun.extend(point.value.to_le_bytes());
        if self.begun.len() > 64 * 1024 {
            self.flush();
        }
    }

    pub(super) fn flush(&mut self) {
        let begun = std::mem::take(&mut self.begun);
        if let Some(file) = &mut self.file
            && let Err(error) = file.write_all(&begun)
        {
            tracing::warn!(%error, "failed to keep the points of a curve; they will be read from the log");
            self.file = None;
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Reads all points of a file with their names; false if there is none.
pub(super) fn read(path: &Path, mut each: impl FnMut(&str, Point)) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut names: Vec<String> = Vec::new();
    let done = loop {
        if let Err(error) = record(&mut reader, &mut names, &mut each) {
            break error;
        }
    };
    if done.kind() == io::ErrorKind::UnexpectedEof {
        Ok(true)
    } else {
        Err(done)
    }
}

fn record(
    reader: &mut impl Read,
    names: &mut Vec<String>,
    each: &mut impl FnMut(&str, Point),
) -> io::Result<()> {
    let [tag, a, b] = bytes(reader)?;
    let number = u16::from_le_bytes([a, b]);
    if tag == NAME {
        let mut name = vec![0; number.into()];
        reader.read_exact(&mut name)?;
        names.push(String::from_utf8_lossy(&name).into_owned());
        return Ok(());
    }
    let time = i64::from_le_bytes(bytes(reader)?);
    let step = f64::from_le_bytes(bytes(reader)?);
    let value = f64::from_le_bytes(bytes(reader)?);
    let name = names.get(usize::from(number));
    let (POINT, Some(name)) = (tag, name) else {
        return Err(io::Error::other("a file of points is damaged"));
    };
    let point = Point {
        time: Timestamp::from_nanosecond(time.into()).unwrap_or_default(),
        step: Some(step).filter(|step| !step.is_nan()),
        value,
    };
    each(name, point);
    Ok(())
}

fn bytes<const N: usize>(reader: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_come_back_as_they_were_and_a_cut_end_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("points");
        let point = |step: Option<f64>, value: f64| Point {
            time: Timestamp::from_nanosecond(1_700_000_000_123_456_789).unwrap(),
            step,
            value,
        };
        let all = [
            ("loss", point(Some(1.0), 0.5)),
            ("정확도", point(None, 0.25)),
            ("loss", point(Some(2.0), f64::INFINITY)),
        ];
        let mut writer = Writer::create(path.clone());
        for (name, point) in &all {
            writer.add(name, *point);
        }
        writer.flush();
        let written = || {
            let mut found = Vec::new();
            read(&path, |name, point| found.push((name.to_owned(), point))).unwrap();
            found
        };
        let owned = |(name, point): &(&str, Point)| ((*name).to_owned(), *point);
        assert_eq!(written(), all.iter().map(owned).collect::<Vec<_>>());
        let length = std::fs::metadata(&path).unwrap().len();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(length - 1)
            .unwrap();
        assert_eq!(written().len(), 2);
        assert!(!read(&folder.path().join("none"), |_, _| {}).unwrap());
    }
}
