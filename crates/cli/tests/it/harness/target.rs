//! Which Kubernetes API and whose controllers the tests run on: `ASTRAGO_TEST_TARGET`.
//!
//! | value | API server | TrainJobs and JobSets by | `make` |
//! |---|---|---|---|
//! | `embedded` (default) | ours | us | `test` |
//! | `kubeflow-2.1`, `kubeflow-2.3` | kube-apiserver | Kubeflow Trainer and JobSet | `test-cluster` |
//! | `controllers` | kube-apiserver | us: `astrago controllers` | `test-cluster` |
//! | `embedded-kubeflow-2.1`, `embedded-kubeflow-2.3` | ours | Kubeflow Trainer and JobSet | `test-cluster` |

use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Whether the API server, Jobs and scheduler are Kubernetes' own.
    pub(crate) kubernetes: bool,
    /// Whose TrainJob and JobSet controllers run; `None` for ours.
    pub(crate) kubeflow: Option<Kubeflow>,
}

/// A release of Kubeflow Trainer, and the JobSet release that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kubeflow {
    pub(crate) trainer: &'static str,
    pub(crate) job_set: &'static str,
}

const KUBEFLOW_2_1: Kubeflow = Kubeflow {
    trainer: "v2.1.0",
    job_set: "v0.10.1",
};
const KUBEFLOW_2_3: Kubeflow = Kubeflow {
    trainer: "v2.3.0",
    job_set: "v0.12.0",
};

impl Target {
    pub(crate) fn chosen() -> Self {
        let name = std::env::var("ASTRAGO_TEST_TARGET").unwrap_or_default();
        let (kubernetes, kubeflow) = match name.as_str() {
            "" | "embedded" => (false, None),
            "kubeflow-2.1" => (true, Some(KUBEFLOW_2_1)),
            "kubeflow-2.3" => (true, Some(KUBEFLOW_2_3)),
            "controllers" => (true, None),
            "embedded-kubeflow-2.1" => (false, Some(KUBEFLOW_2_1)),
            "embedded-kubeflow-2.3" => (false, Some(KUBEFLOW_2_3)),
            other => panic!("ASTRAGO_TEST_TARGET={other} is not known"),
        };
        Self {
            kubernetes,
            kubeflow,
        }
    }
}

/// Where `scripts/cluster-build` leaves the programs of Kubernetes and Kubeflow.
pub(crate) fn program(name: &str) -> PathBuf {
    let folder = std::env::var_os("ASTRAGO_TEST_CLUSTER").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache/astrago/cluster"),
        PathBuf::from,
    );
    let path = folder.join("bin").join(name);
    assert!(
        path.exists(),
        "{} is missing; `make test-cluster` builds it",
        path.display()
    );
    path
}

/// Why some tests do not apply where Kubeflow Trainer v2 is what the cluster has.
pub(crate) const NO_V1_JOBS: &str = "nobody runs v1 jobs beside Kubeflow Trainer v2";

/// Whether a test is about what the target is; says why where it is not.
pub(crate) fn applies(to: impl Fn(Target) -> bool, why: &str) -> bool {
    let applies = to(Target::chosen());
    if !applies {
        println!("does not apply to this target: {why}");
    }
    applies
}

impl Target {
    /// `astrago up` and nothing else.
    pub(crate) fn is_embedded(self) -> bool {
        !self.kubernetes && self.kubeflow.is_none()
    }

    pub(crate) fn is_kubeflow_2_1(self) -> bool {
        self.kubeflow == Some(KUBEFLOW_2_1)
    }

    /// How jobs change their runtime's template.
    pub(crate) fn dialect(self) -> &'static str {
        if self.is_kubeflow_2_1() {
            "podTemplateOverrides"
        } else {
            "runtimePatches"
        }
    }

    /// Whether somebody runs the jobs of the Training Operator v1: our controllers do, on either API server.
    pub(crate) fn runs_v1_jobs(self) -> bool {
        !self.kubernetes || self.kubeflow.is_none()
    }

    /// Whether changes to a runtime's pods are written as `podTemplateOverrides`.
    pub(crate) fn takes_overrides(self) -> bool {
        self.kubeflow.is_none() || self.is_kubeflow_2_1()
    }
}
