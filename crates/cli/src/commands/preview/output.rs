//! The planned objects as YAML, JSON or a table.

use std::io::Write;

use astrago_plan::{PlannedPod, Preview, yaml};
use k8s_openapi::api::core::v1::{Container, Secret};
use kube::ResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Form, Result};
use astrago_plan::pod_fields;

/// Writes the answer: as JSON one document, however many jobs there are.
pub(super) fn write(
    previews: &[Preview],
    form: Form,
    origin: bool,
    out: &mut dyn Write,
) -> Result<()> {
    if form == Form::Json {
        return write_json(previews, origin, out);
    }
    for (index, preview) in previews.iter().enumerate() {
        if form == Form::Yaml {
            write_yaml(preview, origin, out)?;
            continue;
        }
        if index > 0 {
            writeln!(out)?;
        }
        write_table(preview, origin, out)?;
    }
    Ok(())
}

/// Every object that is made besides the pods, in the order in which they are made.
fn objects(preview: &Preview) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    if let Some(ssh) = &preview.plan.ssh_auth {
        let mut secret = Secret::default();
        secret.metadata.name = Some(ssh.secret_name.clone());
        secret.metadata.namespace = preview.plan.job_set.namespace();
        secret.type_ = Some("kubernetes.io/ssh-auth".into());
        objects.push(serde_json::to_value(secret)?);
    }
    extend(&mut objects, &preview.plan.config_maps)?;
    extend(&mut objects, [&preview.plan.job_set])?;
    extend(&mut objects, &preview.service)?;
    extend(&mut objects, &preview.volume_claims)?;
    extend(&mut objects, &preview.jobs)?;
    Ok(objects)
}

fn extend<T: Serialize>(
    objects: &mut Vec<Value>,
    more: impl IntoIterator<Item = T>,
) -> serde_json::Result<()> {
    for object in more {
        objects.push(serde_json::to_value(object)?);
    }
    Ok(())
}

fn write_yaml(preview: &Preview, origin: bool, out: &mut dyn Write) -> Result<()> {
    for object in objects(preview)? {
        write!(out, "---\n{}", yaml::plain(&object))?;
    }
    for planned in &preview.pods {
        let pod = serde_json::to_value(&planned.pod)?;
        let text = if origin {
            planned.annotated_yaml()
        } else {
            yaml::plain(&pod)
        };
        write!(out, "---\n{text}")?;
    }
    Ok(())
}

fn write_json(previews: &[Preview], origin: bool, out: &mut dyn Write) -> Result<()> {
    let mut items = Vec::new();
    for preview in previews {
        items.extend(objects(preview)?);
        extend(&mut items, preview.pods.iter().map(|planned| &planned.pod))?;
    }
    let mut answer = json!({"apiVersion": "v1", "kind": "List", "items": items});
    if origin {
        let pods = previews.iter().flat_map(|preview| &preview.pods);
        let origins = pods.map(|planned| {
            (
                planned.pod.name_any(),
                serde_json::to_value(&planned.origins).unwrap_or_default(),
            )
        });
        answer["origins"] = Value::Object(origins.collect());
    }
    serde_json::to_writer_pretty(&mut *out, &answer)?;
    writeln!(out)?;
    Ok(())
}

fn write_table(preview: &Preview, origin: bool, out: &mut dyn Write) -> Result<()> {
    let mut rows =
        vec![["POD", "RANK", "CONTAINER", "IMAGE", "CPU", "MEMORY", "GPU"].map(String::from)];
    for planned in &preview.pods {
        rows.extend(containers(planned).map(|container| row(planned, container)));
    }
    write_rows(&rows, out)?;
    if origin {
        for planned in &preview.pods {
            writeln!(out, "\n{}", planned.pod.name_any())?;
            let fields = pod_fields(planned)
                .into_iter()
                .map(|(path, value, origin)| {
                    [
                        path,
                        value,
                        origin.map_or_else(String::new, ToString::to_string),
                    ]
                });
            let header = ["FIELD", "VALUE", "ORIGIN"].map(String::from);
            write_rows(
                &std::iter::once(header).chain(fields).collect::<Vec<_>>(),
                out,
            )?;
        }
    }
    Ok(())
}

fn containers(planned: &PlannedPod) -> impl Iterator<Item = &Container> {
    let spec = planned.pod.spec.iter();
    spec.flat_map(|spec| {
        spec.init_containers
            .iter()
            .flatten()
            .chain(&spec.containers)
    })
}

fn row(planned: &PlannedPod, container: &Container) -> [String; 7] {
    let resources = container.resources.as_ref();
    let amount = |name: &str| {
        let of = |list: Option<&std::collections::BTreeMap<_, _>>| {
            list.and_then(|list| list.get(name)).map(
                |quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| {
                    quantity.0.clone()
                },
            )
        };
        let request = resources.and_then(|resources| of(resources.requests.as_ref()));
        let limit = resources.and_then(|resources| of(resources.limits.as_ref()));
        match (request, limit) {
            (Some(request), Some(limit)) if request != limit => format!("{request}/{limit}"),
            (Some(amount), _) | (None, Some(amount)) => amount,
            (None, None) => "-".into(),
        }
    };
    [
        planned.pod.name_any(),
        planned.index.to_string(),
        container.name.clone(),
        container.image.clone().unwrap_or_default(),
        amount("cpu"),
        amount("memory"),
        amount("nvidia.com/gpu"),
    ]
}

fn write_rows<const N: usize>(rows: &[[String; N]], out: &mut dyn Write) -> Result<()> {
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    });
    for row in rows {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("   ");
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
