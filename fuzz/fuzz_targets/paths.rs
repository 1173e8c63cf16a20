//! Any path is a resource, something else, or nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|path: &str| {
    let _ = astrago_apiserver::path::parse(path);
});
