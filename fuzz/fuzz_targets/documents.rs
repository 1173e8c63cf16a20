#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| astrago_fuzz::documents::run(data));
