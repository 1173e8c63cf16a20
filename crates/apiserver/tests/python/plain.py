"""The Python client of Kubernetes: every way to read and write that its users use."""

import threading
from importlib.metadata import version

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config()
core = client.CoreV1Api()
custom = client.CustomObjectsApi()


def config_map(name, value):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "x"}), data={"key": value})


def refused(code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == code, error
        return error
    raise AssertionError(f"not refused with {code}")


created = core.create_namespaced_config_map("default", config_map("a", "1"))
assert created.metadata.uid and created.metadata.resource_version
refused(409, core.create_namespaced_config_map, "default", config_map("a", "1"))
assert core.read_namespaced_config_map("a", "default").data == {"key": "1"}
assert len(core.list_namespaced_config_map("default", label_selector="app=x").items) == 1
assert core.list_config_map_for_all_namespaces(field_selector="metadata.name=a").items[0].metadata.name == "a"

seen, found = [], threading.Event()
started = core.list_namespaced_config_map("default").metadata.resource_version


def follow():
    events = watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=started, timeout_seconds=60
    )
    for event in events:
        seen.append((event["type"], event["object"].metadata.name))
        if event["type"] == "DELETED":
            break
    found.set()


thread = threading.Thread(target=follow)
thread.start()
patched = core.patch_namespaced_config_map("a", "default", {"data": {"more": "2"}})
assert patched.data == {"key": "1", "more": "2"}
patched = core.patch_namespaced_config_map("a", "default", [{"op": "remove", "path": "/data/more"}])
assert patched.data == {"key": "1"}
patched.data = {"key": "3"}
assert core.replace_namespaced_config_map("a", "default", patched).data == {"key": "3"}
refused(409, core.replace_namespaced_config_map, "a", "default", patched)
core.replace_namespaced_config_map("a", "default", config_map("a", "4"), dry_run="All")
assert core.read_namespaced_config_map("a", "default").data == {"key": "3"}
core.delete_namespaced_config_map("a", "default", propagation_policy="Background")
assert found.wait(60), seen
thread.join()
assert [kind for kind, _ in seen] == ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"], seen
refused(404, core.read_namespaced_config_map, "a", "default")

for index in range(7):
    core.create_namespaced_config_map("default", config_map(f"p-{index}", "x"))
page, names = None, []
while page is None or page.metadata._continue:
    page = core.list_namespaced_config_map(
        "default", label_selector="app=x", limit=3, _continue=page.metadata._continue if page else None
    )
    names += [item.metadata.name for item in page.items]
assert names == [f"p-{index}" for index in range(7)], names
core.delete_collection_namespaced_config_map("default", label_selector="app=x")
assert core.list_namespaced_config_map("default", label_selector="app=x").items == []

pod = core.create_namespaced_pod(
    "default",
    client.V1Pod(
        metadata=client.V1ObjectMeta(generate_name="p-"),
        spec=client.V1PodSpec(
            containers=[
                client.V1Container(
                    name="c", image="i", resources=client.V1ResourceRequirements(limits={"cpu": "1.5", "memory": "1Gi"})
                )
            ]
        ),
    ),
)
assert pod.spec.containers[0].resources.requests == {"cpu": "1500m", "memory": "1Gi"}, pod.spec
core.patch_namespaced_pod_status(pod.metadata.name, "default", {"status": {"phase": "Running"}})
assert core.read_namespaced_pod_status(pod.metadata.name, "default").status.phase == "Running"
core.delete_namespaced_pod(pod.metadata.name, "default", grace_period_seconds=0)

error = refused(
    422,
    custom.create_namespaced_custom_object,
    "trainer.kubeflow.org",
    "v1alpha1",
    "default",
    "trainjobs",
    {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "Bad-Name"},
        "spec": {"runtimeRef": {"name": "x"}},
    },
)
assert "is invalid" in error.body, error.body
review = client.AuthorizationV1Api().create_self_subject_access_review(
    client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="get", resource="pods", namespace="default")
        )
    )
)
assert review.status.allowed
assert client.VersionApi().get_code().major == "1"
assert "trainer.kubeflow.org" in [group.name for group in client.ApisApi().get_api_versions().groups]
print("fine with kubernetes", version("kubernetes"))
