//! The jobs that wait, and the priorities that there are.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::{Error, Result, list};
use crate::context::Context;
use crate::identity::Caller;
use crate::model::{Priority, Queue, QueueEntry};
use crate::view::Job;

/// The jobs that wait, in the order in which they will be started.
pub(crate) async fn queue(context: &Context, caller: &Caller) -> Result<Queue> {
    let readable = list::readable(context, caller, None).await?;
    let world = &context.world;
    let mut hidden = 0;
    let mut items = Vec::new();
    let order = world.line.order(&world.mirrors, context.now());
    for ((key, priority), position) in order.jobs.iter().zip(1..) {
        if !readable.may(&key.namespace) {
            hidden += 1;
            continue;
        }
        let Some(job) = Job::find(&world.mirrors, key) else {
            continue;
        };
        items.push(QueueEntry {
            reason: job.message(),
            cause: job.cause(),
            needs: job.per_node.times(job.num_nodes),
            since: job.created_at(),
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            position,
            priority: i64::from(*priority),
        });
    }
    Ok(Queue { items, hidden })
}

/// The priorities that administrators have defined. Those of the system itself are not for jobs.
pub(crate) async fn priorities(context: &Context) -> Result<Vec<Priority>> {
    let api: Api<PriorityClass> = Api::all(context.client.clone());
    let found = api
        .list(&ListParams::default())
        .await
        .map_err(|error| Error::cluster("list the priorities", error))?;
    let mut priorities: Vec<Priority> = found
        .iter()
        .filter(|class| !class.name_any().starts_with("system-"))
        .map(|class| Priority {
            name: class.name_any(),
            value: i64::from(class.value.unwrap_or(0)),
            description: class.description.clone(),
            default: class.global_default == Some(true),
        })
        .collect();
    priorities.sort_by(|left, right| (right.value, &left.name).cmp(&(left.value, &right.name)));
    Ok(priorities)
}
