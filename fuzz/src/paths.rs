//! Any path is a resource, something else, or nothing.

pub fn run(data: &[u8]) {
    let _ = astrago_apiserver::path::parse(&String::from_utf8_lossy(data));
}
