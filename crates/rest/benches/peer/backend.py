"""A training backend as teams write it first: FastAPI and the official Kubernetes client, one request to
the API server for every object and every question. The benchmark measures it beside ours."""

import os
import time
import uuid
from datetime import datetime, timezone
from typing import Literal, Optional

from fastapi import Depends, FastAPI, Header, HTTPException
from kubernetes import client, config
from kubernetes.client.rest import ApiException
from pydantic import BaseModel, Field

config.load_kube_config(os.environ["KUBECONFIG"])
core = client.CoreV1Api()
custom = client.CustomObjectsApi()
TOKEN = os.environ["PEER_TOKEN"]
GROUP, VERSION, PLURAL = "trainer.kubeflow.org", "v1alpha1", "trainjobs"

app = FastAPI()


class Sizes(BaseModel):
    num_nodes: int = Field(ge=1, le=1000)
    gpu_per_node: int = Field(default=0, ge=0)
    cpu_per_node: int = Field(default=1, ge=1)
    memory_per_node: str = "1Gi"


class CreateRequest(BaseModel):
    user_id: str
    namespace: str
    framework: Literal["pytorch", "tensorflow"]
    training_code: str
    config: Sizes


def authenticated(authorization: Optional[str] = Header(default=None)) -> None:
    if authorization != f"Bearer {TOKEN}":
        raise HTTPException(status_code=401, detail="a token is needed")


@app.post("/api/trainjob/create", dependencies=[Depends(authenticated)])
def create(request: CreateRequest) -> dict:
    stamp = datetime.now(timezone.utc)
    name = f"{request.user_id}-job-{stamp:%Y%m%d%H%M%S}-{uuid.uuid4().hex[:5]}"
    script = f"{name}-train-script"
    core.create_namespaced_config_map(
        request.namespace,
        {"metadata": {"name": script}, "data": {"train.py": request.training_code}},
    )
    sizes = request.config
    resources = {"cpu": str(sizes.cpu_per_node), "memory": sizes.memory_per_node}
    job = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {
            "runtimeRef": {"name": "pytorch-simple"},
            "trainer": {
                "numNodes": sizes.num_nodes,
                "command": ["bash", "-c", "python3 /workspace/scripts/train.py"],
                "resourcesPerNode": {"requests": resources, "limits": resources},
            },
        },
    }
    try:
        custom.create_namespaced_custom_object(GROUP, VERSION, request.namespace, PLURAL, job)
    except ApiException as error:
        core.delete_namespaced_config_map(script, request.namespace)
        raise HTTPException(status_code=error.status, detail=str(error.reason)) from error
    return {
        "status": "success",
        "trainjob_name": name,
        "namespace": request.namespace,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", stamp.timetuple()),
    }


@app.get("/api/trainjob/{name}/status", dependencies=[Depends(authenticated)])
def status(name: str, namespace: str) -> dict:
    try:
        job = custom.get_namespaced_custom_object(GROUP, VERSION, namespace, PLURAL, name)
    except ApiException as error:
        raise HTTPException(status_code=error.status, detail=str(error.reason)) from error
    conditions = job.get("status", {}).get("conditions", [])
    done = [one for one in conditions if one["status"] == "True"]
    return {
        "trainjob_name": name,
        "state": done[-1]["type"] if done else "Running",
        "message": done[-1]["message"] if done else "",
        "created_at": job["metadata"]["creationTimestamp"],
        "completed_at": done[-1]["lastTransitionTime"] if done else None,
    }


@app.get("/healthz")
def healthz() -> str:
    return "ok"
