//! Any text is a YAML document or a quantity, or it is refused.

use astrago_patch::bounds;
use astrago_patch::quantity::Amount;

pub fn run(data: &[u8]) {
    if let Some(value) = astrago_apiserver::internals::yaml(data) {
        let _ = bounds::check(&value);
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(amount) = text.parse::<Amount>() {
        let _ = (
            amount.units_up(),
            amount.millis_up(),
            amount.scaled(u64::MAX),
        );
        let again: Result<Amount, _> = amount.to_string().parse();
        assert!(again.is_ok(), "{text:?} became {amount}");
    }
}
