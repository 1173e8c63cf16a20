#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| astrago_fuzz::rules::run(data));
