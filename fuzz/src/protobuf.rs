//! Any bytes behind the magic are read or refused.

pub fn run(data: &[u8]) {
    let _ = astrago_apiserver::internals::protobuf(data);
    let mut framed = b"k8s\0".to_vec();
    framed.extend_from_slice(data);
    let _ = astrago_apiserver::internals::protobuf(&framed);
}
