//! The schema of `astrago.yaml`, made of the flags of `astrago run`, whose names and words it has.

#[path = "../../../crates/cli/src/args/run.rs"]
#[allow(dead_code, reason = "its flags are looked at, never parsed")]
mod run;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, Args, Command};
use serde_json::{Map, Value, json};

pub(super) fn schema() -> Result<(String, Vec<u8>)> {
    let command = run::Run::augment_args(Command::new("run"));
    let mut properties = Map::new();
    for argument in command.get_arguments() {
        let last = argument.is_last_set().then(|| argument.get_id().as_str());
        // Where code comes from instead of the folder is not for the folder to say.
        let long = argument.get_long().filter(|long| *long != "git");
        if let Some(name) = last.or(long) {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            for name in std::iter::once(name).chain(aliases) {
                properties.insert(name.to_owned(), property(argument));
            }
        }
    }
    let namespace = json!({ "type": "string", "description": "Namespace to work in" });
    properties.insert("namespace".to_owned(), namespace);
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "astrago.yaml",
        "description": "How `astrago run` trains what is in a folder. A flag that is given wins over a field.",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    let mut text = serde_json::to_string_pretty(&schema)
        .context("failed to print the schema of astrago.yaml")?;
    text.push('\n');
    Ok(("docs/astrago.schema.json".to_owned(), text.into()))
}

fn property(argument: &Arg) -> Value {
    let form = argument.get_value_names().and_then(|names| names.first());
    let form = form.map_or("", |form| form.as_str());
    let scalar = json!({ "type": ["string", "number", "boolean"] });
    let choices = argument.get_possible_values();
    let mut property = match argument.get_action() {
        ArgAction::SetTrue => json!({ "type": "boolean" }),
        ArgAction::Append if form.contains('=') => json!({
            "type": ["object", "array", "string"],
            "additionalProperties": if form == "FIELD=VALUE" { json!({}) } else { scalar.clone() },
            "items": scalar,
        }),
        ArgAction::Append => json!({ "type": ["array", "string"], "items": scalar }),
        _ if !choices.is_empty() => {
            json!({ "enum": choices.iter().map(clap::builder::PossibleValue::get_name).collect::<Vec<_>>() })
        }
        _ if form == "N" => json!({ "type": "integer" }),
        _ => json!({ "type": ["string", "number"] }),
    };
    let help = argument.get_help().map(ToString::to_string);
    property["description"] = help.unwrap_or_default().replace(" (repeatable)", "").into();
    property
}
