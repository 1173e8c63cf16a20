//! Any bytes behind the magic are read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = astrago_apiserver::protobuf::decode(data);
    let mut framed = b"k8s\0".to_vec();
    framed.extend_from_slice(data);
    let _ = astrago_apiserver::protobuf::decode(&framed);
});
