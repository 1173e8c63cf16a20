//! How many nodes, and what each of them gets.

use std::collections::BTreeMap;

use astrago_api::quantity::Amount;

use super::{Mistakes, Policy, quantity};
use crate::model::{CreateRequest, Refusal};

/// One millicore, and a mebibyte: less cannot run anything and is surely a slip of the unit.
const MIN_CPU: (i64, &str) = (1, "0.001");
pub(super) const MIN_MEMORY: (i64, &str) = (1024 * 1024 * 1000, "1Mi");

/// Checks the sizes and writes those of `config` into the flat fields. Returns the number of nodes.
pub(super) fn check(
    asked: &mut CreateRequest,
    policy: &Policy,
    mistakes: &mut Mistakes,
) -> Option<i64> {
    let nested = flatten(asked, mistakes);
    let field = if nested {
        "config.num_nodes"
    } else {
        "num_nodes"
    };
    let nodes = check_nodes(field, asked.num_nodes, policy, mistakes);
    let (cpu, memory) = ("config.cpu_per_node", "config.memory_per_node");
    let amounts = [
        ("cpu_request", cpu, &asked.cpu_request, MIN_CPU),
        ("cpu_limit", cpu, &asked.cpu_limit, MIN_CPU),
        ("memory_request", memory, &asked.memory_request, MIN_MEMORY),
        ("memory_limit", memory, &asked.memory_limit, MIN_MEMORY),
    ];
    for (flat, in_config, amount, minimum) in amounts {
        let field = if nested { in_config } else { flat };
        check_amount(field, amount.as_deref(), minimum, mistakes);
    }
    check_amount(
        "launcher_cpu",
        asked.launcher_cpu.as_deref(),
        MIN_CPU,
        mistakes,
    );
    check_amount(
        "launcher_memory",
        asked.launcher_memory.as_deref(),
        MIN_MEMORY,
        mistakes,
    );
    let pairs = [
        (
            ["cpu_request", "cpu_limit"],
            &asked.cpu_request,
            &asked.cpu_limit,
        ),
        (
            ["memory_request", "memory_limit"],
            &asked.memory_request,
            &asked.memory_limit,
        ),
    ];
    for (fields, request, limit) in pairs {
        if let (Some(value), Some(limit)) = (request, limit)
            && !fields.iter().any(|field| mistakes.has(field))
            && quantity::read(value).ok() > quantity::read(limit).ok()
        {
            let (value, limit) = (value.clone(), limit.clone());
            mistakes.push(fields[0], Refusal::AboveLimit { value, limit });
        }
    }
    nodes
}

/// Form A becomes form B; whether it was form A.
fn flatten(asked: &mut CreateRequest, mistakes: &mut Mistakes) -> bool {
    let Some(config) = asked.config.take() else {
        return false;
    };
    let repeated = [
        ("num_nodes", asked.num_nodes.is_some()),
        ("gpu_count", asked.gpu_count.is_some()),
        ("cpu_request", asked.cpu_request.is_some()),
        ("cpu_limit", asked.cpu_limit.is_some()),
        ("memory_request", asked.memory_request.is_some()),
        ("memory_limit", asked.memory_limit.is_some()),
    ];
    for (field, _) in repeated.iter().filter(|(_, given)| *given) {
        mistakes.push(*field, "is already given by config; give the sizes once");
    }
    asked.num_nodes = Some(config.num_nodes);
    asked.gpu_count = config.gpu_per_node;
    (asked.cpu_request, asked.cpu_limit) = (config.cpu_per_node.clone(), config.cpu_per_node);
    asked.memory_request.clone_from(&config.memory_per_node);
    asked.memory_limit = config.memory_per_node;
    true
}

fn check_nodes(
    field: &str,
    asked: Option<i64>,
    policy: &Policy,
    mistakes: &mut Mistakes,
) -> Option<i64> {
    if asked.is_none() && !mistakes.has("config") {
        mistakes.push(field, Refusal::Required);
    }
    let (low, high, value) = (1, policy.max_nodes, asked?);
    if (low..=high).contains(&value) {
        return Some(value);
    }
    mistakes.push(field, Refusal::Between { low, high, value });
    None
}

pub(super) fn check_amount(
    field: &str,
    text: Option<&str>,
    (minimum, low): (i64, &str),
    mistakes: &mut Mistakes,
) {
    let Some(text) = text else { return };
    let amount = mistakes.check(field, quantity::read(text));
    if amount.is_some_and(|amount| amount < Amount::milli(minimum)) {
        let (low, value) = (low.to_owned(), text.to_owned());
        mistakes.push(field, Refusal::AtLeast { low, value });
    }
}

/// Requests and limits of one node. A request without a limit stays without one; a limit alone is also the request, as
/// in Kubernetes. GPUs stand in both, and zero GPUs in neither.
pub(super) fn resources(
    asked: &CreateRequest,
) -> [(&'static str, BTreeMap<&'static str, String>); 2] {
    let gpus = asked
        .gpu_count
        .filter(|gpus| *gpus > 0)
        .map(|gpus| gpus.to_string());
    let side = |cpu: Option<&String>, memory: Option<&String>| {
        let amounts = [
            ("cpu", cpu),
            ("memory", memory),
            ("nvidia.com/gpu", gpus.as_ref()),
        ];
        let given = amounts
            .into_iter()
            .filter_map(|(name, amount)| Some((name, amount?.clone())));
        given.collect()
    };
    let (cpu, memory) = (asked.cpu_limit.as_ref(), asked.memory_limit.as_ref());
    let requests = side(
        asked.cpu_request.as_ref().or(cpu),
        asked.memory_request.as_ref().or(memory),
    );
    [("requests", requests), ("limits", side(cpu, memory))]
}
