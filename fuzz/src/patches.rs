//! Any object can be patched with anything, in four ways.

use arbitrary::Unstructured;
use astrago_patch::bounds::{self, Exceeded};
use astrago_patch::{Keys, apply, json as json_patch, merge, strategic};

use super::json;

const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "0",
    "-",
    "~1",
    "/a/b",
    "metadata",
    "managedFields",
    "spec",
    "template",
    "containers",
    "name",
    "env",
    "ports",
    "containerPort",
    "protocol",
    "volumes",
    "finalizers",
    "ownerReferences",
    "uid",
    "labels",
    "$patch",
    "delete",
    "replace",
    "merge",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "$retainKeys",
    "op",
    "path",
    "from",
    "value",
    "add",
    "remove",
    "move",
    "copy",
    "test",
    "/spec/containers/0/name",
    "/spec/containers/-",
    "manager",
    "operation",
    "Apply",
    "Update",
    "apiVersion",
    "v1",
    "fieldsV1",
    "f:spec",
    "f:containers",
    "k:{\"name\":\"a\"}",
    ".",
    "v:\"a\"",
    "fieldsType",
    "FieldsV1",
    "subresource",
    "status",
    "conditions",
    "type",
];

pub fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let (Ok(object), Ok(patch)) = (
        json::value(&mut bytes, WORDS),
        json::value(&mut bytes, WORDS),
    ) else {
        return;
    };
    let mut merged = object.clone();
    merge::apply(&mut merged, &patch);
    let mut patched = object.clone();
    match json_patch::apply(&mut patched, &patch) {
        Ok(()) => assert_ne!(bounds::check(&patched), Err(Exceeded::Depth)),
        Err(_) => assert_eq!(patched, object),
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
}
