//! Any text is a selector or is refused.

use astrago_apiserver::internals::{Fields, Labels};

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = Labels::parse(&text);
    let _ = Fields::parse(&text, |_| true);
}
