//! Any object can be patched with anything, in four ways.
#![no_main]

use astrago_patch::{Keys, apply, json, merge, strategic};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|texts: (&str, &str)| {
    let (Ok(object), Ok(patch)) =
        (serde_json::from_str::<Value>(texts.0), serde_json::from_str::<Value>(texts.1))
    else {
        return;
    };
    let mut merged = object.clone();
    merge::apply(&mut merged, &patch);
    let mut patched = object.clone();
    if json::apply(&mut patched, &patch).is_err() {
        assert_eq!(patched, object);
    }
    let _ = strategic::merge(&object, &patch, Keys::pod_template_spec());
    let manager = apply::Manager {
        name: "fuzz",
        api_version: "v1",
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    };
    let keys = Keys::builtin("", "Pod");
    if let Ok(once) = apply::apply(&object, &patch, &manager, true, keys) {
        let _ = apply::apply(&once, &patch, &manager, true, keys);
    }
    let mut new = patch;
    apply::update(&object, &mut new, &manager, keys);
});
