//! The addresses of Services: each that is not headless gets one for its life, and no two have the same.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::admission;
use crate::kinds::schema::FieldError;
use crate::status::{ApiError, Result};
use crate::store::{Query, Store};
use crate::verbs::call::Call;

/// Where they are taken from, as in most clusters: 10.96.0.0/12, without its first and last address.
const FIRST: u32 = u32::from_be_bytes([10, 96, 0, 1]);
const LAST: u32 = u32::from_be_bytes([10, 111, 255, 254]);

/// Gives a Service its address. Whoever calls this has the turn until the Service is written.
pub(crate) fn assign(call: &Call, new: &mut Value, old: Option<&Value>) -> Result<()> {
    let is_unchanged = old.is_some_and(|old| old["spec"] == new["spec"]);
    if is_unchanged || new["spec"]["type"] == "ExternalName" || !new["spec"].is_object() {
        return Ok(());
    }
    let store = &call.core.store;
    let given = |object: &Value| {
        let address = object["spec"]["clusterIP"].as_str();
        address.filter(|it| !it.is_empty()).map(str::to_owned)
    };
    let address = match (given(new), old.and_then(given)) {
        (Some(address), Some(before)) if address == before => return Ok(()),
        (Some(address), _) if address == "None" => return Ok(()),
        (None, Some(before)) => before,
        (Some(address), _) => {
            let problem = match address.parse::<Ipv4Addr>() {
                Ok(it) if (FIRST..=LAST).contains(&u32::from(it)) => taken(store)
                    .contains(&address)
                    .then_some("failed to allocate IP: provided IP is already allocated"),
                _ => Some(
                    "failed to allocate IP: the provided IP is not in the valid range. The range of valid IPs is 10.96.0.0/12",
                ),
            };
            if let Some(problem) = problem {
                let error = FieldError::invalid("spec.clusterIPs", &json!([address]), problem);
                return Err(admission::invalid(&call.kind, new, vec![error]));
            }
            address
        }
        (None, None) => {
            let taken = taken(store);
            // Above all that are taken, so that an address rests before it is used again.
            let last = taken.iter().filter_map(|it| it.parse::<Ipv4Addr>().ok());
            let last = last.map(u32::from).max().unwrap_or(FIRST);
            let (above, below) = (last..=LAST, FIRST..=last);
            let free = above.chain(below).map(|it| Ipv4Addr::from(it).to_string());
            let free = free.into_iter().find(|it| !taken.contains(it));
            free.ok_or_else(|| ApiError::Internal("all addresses of Services are taken".into()))?
        }
    };
    new["spec"]["clusterIP"] = json!(address);
    new["spec"]["clusterIPs"] = json!([address]);
    Ok(())
}

fn taken(store: &Store) -> BTreeSet<String> {
    let page = store.list("services", &Query::default());
    let services = page.map(|page| page.objects).unwrap_or_default();
    let values = services.into_iter().map(|service| service.value());
    values
        .filter_map(|service| service["spec"]["clusterIP"].as_str().map(str::to_owned))
        .collect()
}
