//! Any text is a selector or is refused.
#![no_main]

use astrago_apiserver::selector::{Fields, Labels};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Labels::parse(text);
    let _ = Fields::parse(text, |_| true);
});
