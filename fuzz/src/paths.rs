//! Any path is a resource, something else, or nothing.

pub fn run(data: &[u8]) {
    let _ = astrago_apiserver::internals::path(&String::from_utf8_lossy(data));
}
