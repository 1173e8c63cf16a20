//! Any schema compiles or is refused, and then any object can be pruned, defaulted and validated.
#![no_main]

use astrago_apiserver::schema::Structural;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|texts: (&str, &str)| {
    let (Ok(schema), Ok(mut object)) =
        (serde_json::from_str::<Value>(texts.0), serde_json::from_str::<Value>(texts.1))
    else {
        return;
    };
    let Ok(structural) = Structural::compile(&schema) else { return };
    structural.prune(&mut object);
    structural.default(&mut object);
    let _ = structural.validate(&object, None);
});
