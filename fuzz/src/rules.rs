//! Any rule compiles or is refused, and ends in time on any object.

use arbitrary::Unstructured;
use astrago_apiserver::Structural;

use super::json;

/// Pieces of rules, which are put together as they come.
const WORDS: &[&str] = &[
    "self",
    "oldSelf",
    ".a",
    ".b",
    "[0]",
    ".?a",
    "[?0]",
    "x",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    " ? ",
    " == ",
    " != ",
    " < ",
    " >= ",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " && ",
    " || ",
    "!",
    " in ",
    "1",
    "0",
    "-1",
    "1.5",
    "'a'",
    "'%s %d'",
    "''",
    "true",
    "null",
    ".all(x, ",
    ".exists(x, ",
    ".map(x, ",
    ".filter(x, ",
    ".exists_one(x, ",
    ".size()",
    "size(",
    "has(self.a)",
    ".matches(",
    ".replace(",
    ".join(",
    ".split(",
    ".format(",
    ".find(",
    ".sum()",
    ".min()",
    ".isSorted()",
    ".indexOf(",
    "quantity(",
    "isQuantity(",
    ".isLessThan(",
    "url(",
    ".getQuery()",
    "ip(",
    "cidr(",
    ".containsIP(",
    "duration(",
    "timestamp(",
    "string(",
    "int(",
    "double(",
    "type(",
    "lists.range(",
    "sets.contains(",
    "optional.of(",
    ".orValue(",
    ".optMap(x, ",
    "math.greatest(",
    ".distinct()",
    ".sort()",
    ".flatten()",
    ".substring(",
    "format.named(",
    ".validate(",
];

pub fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let Ok(count) = bytes.int_in_range(1..=24) else {
        return;
    };
    let mut rule = String::new();
    for _ in 0..count {
        let Ok(piece) = bytes.choose(WORDS) else {
            return;
        };
        rule.push_str(piece);
    }
    // What is open is closed, or hardly anything would parse.
    let open = rule
        .matches('(')
        .count()
        .saturating_sub(rule.matches(')').count());
    rule.push_str(&")".repeat(open));
    let schema = serde_json::json!({
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{ "rule": rule, "messageExpression": rule }],
    });
    let Ok(structural) = Structural::compile(&schema) else {
        return;
    };
    let (Ok(object), Ok(old)) = (
        json::value(&mut bytes, WORDS),
        json::value(&mut bytes, WORDS),
    ) else {
        return;
    };
    let _ = structural.validate(&object, None);
    let _ = structural.validate(&object, Some(&old));
}
