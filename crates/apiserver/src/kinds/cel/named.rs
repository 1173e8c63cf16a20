//! `format.dns1123Label().validate(self.name)`: Kubernetes' names for forms of text.

#![expect(
    clippy::needless_pass_by_value,
    reason = "the interpreter hands arguments over by value"
)]

use std::sync::{Arc, LazyLock};

use cel::common::functions::Function;
use cel::common::types::{STRING_TYPE, Type};
use cel::common::value::Val;
use cel::{DeclarationError, Env, Value};
use regex::Regex;

use super::opaque::{Answer, Args, Custom, Opaque, custom, optional, own, string};

static TYPE: Type = Type::new_unspecified_type("kubernetes.NamedFormat");

/// A form of text, by its place in [`FORMS`].
#[derive(Clone, Copy, Debug, PartialEq)]
struct Form(usize);

impl Custom for Form {
    fn cel_type() -> &'static Type {
        &TYPE
    }
}

struct Description {
    name: &'static str,
    make: Function,
    pattern: LazyLock<Option<Regex>>,
    longest: usize,
}

macro_rules! form {
    ($index:literal, $name:literal, $longest:literal, $pattern:literal) => {
        Description {
            name: $name,
            make: |_| custom(Form($index)),
            pattern: LazyLock::new(|| Regex::new(concat!("^(?:", $pattern, ")$")).ok()),
            longest: $longest,
        }
    };
}

static FORMS: [Description; 13] = [
    form!(0, "dns1123Label", 63, "[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    form!(
        1,
        "dns1123Subdomain",
        253,
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    ),
    form!(2, "dns1035Label", 63, "[a-z]([-a-z0-9]*[a-z0-9])?"),
    form!(
        3,
        "qualifiedName",
        317,
        r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
    ),
    form!(4, "dns1123LabelPrefix", 63, "[a-z0-9]([-a-z0-9]*)?"),
    form!(
        5,
        "dns1123SubdomainPrefix",
        253,
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*[-.]?"
    ),
    form!(6, "dns1035LabelPrefix", 63, "[a-z]([-a-z0-9]*)?"),
    form!(
        7,
        "labelValue",
        63,
        "([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
    ),
    form!(8, "uri", 1_000_000, r"([A-Za-z][A-Za-z0-9+.-]*:|/)\S*"),
    form!(
        9,
        "uuid",
        36,
        "[0-9A-Fa-f]{8}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{4}-?[0-9A-Fa-f]{12}"
    ),
    form!(
        10,
        "byte",
        10_000_000,
        "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
    ),
    form!(
        11,
        "date",
        10,
        r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    ),
    form!(
        12,
        "datetime",
        40,
        r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
    ),
];

pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    for form in &FORMS {
        let name = format!("format.{}", form.name);
        env.add_overload(&name, &name, vec![], form.make)?;
    }
    env.add_overload("format.named", "format_named", vec![STRING_TYPE], named)?;
    env.add_member_overload(
        "validate",
        "format_validate",
        TYPE.to_owned(),
        vec![STRING_TYPE],
        validate,
    )
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|form| form.name)
}

fn named<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let name = string(&args, 0)?;
    let index = FORMS.iter().position(|form| *form.name == **name);
    optional(index.map(|index| Box::new(Opaque(Form(index))) as Box<dyn Val>))
}

/// Nothing if the text has the form, else a list of what is wrong.
fn validate<'b, 'v>(args: Args<'b, 'v>) -> Answer<'b, 'v> {
    let (form, text) = (own::<Form>(&args, 0)?, string(&args, 1)?);
    let form = &FORMS[form.0];
    let mut problems = Vec::new();
    if text.len() > form.longest {
        problems.push(format!("must be no more than {} characters", form.longest));
    }
    if !form
        .pattern
        .as_ref()
        .is_some_and(|pattern| pattern.is_match(&text))
    {
        problems.push(format!("is not a valid {}", form.name));
    }
    if problems.is_empty() {
        return optional(None);
    }
    let problems = problems.into_iter().map(Value::from).collect();
    let list: Box<dyn Val> = Value::List(Arc::new(problems)).try_into()?;
    optional(Some(list))
}
