//! What differs between the frameworks that a form can name.

use std::str::FromStr;
use std::sync::LazyLock;

use crate::model::Refusal;

/// A framework of the form's `framework` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framework {
    PyTorch,
    TensorFlow,
    Horovod,
    DeepSpeed,
    Jax,
    XgBoost,
    Mlx,
}

/// How a framework is called in requests and answers, in the order in which they are listed.
const NAMES: [(&str, Framework); 7] = [
    ("pytorch", Framework::PyTorch),
    ("tensorflow", Framework::TensorFlow),
    ("horovod", Framework::Horovod),
    ("deepspeed", Framework::DeepSpeed),
    ("jax", Framework::Jax),
    ("xgboost", Framework::XgBoost),
    ("mlx", Framework::Mlx),
];

/// PyTorch's own variables from those that the torch policy injects: Kubeflow's own sets no others.
static PYTORCH_PREAMBLE: LazyLock<String> = LazyLock::new(|| {
    let lines = astrago_plan::ONE_PROCESS
        .map(|(name, source, default)| format!("export {name}=${{{source}:-{default}}}\n"));
    lines.concat()
});

/// `TF_CONFIG` from the file that the init container `tf-config-generator` wrote.
const TENSORFLOW_PREAMBLE: &str = "\
source /shared-env/tf_config.env
echo \"TF_CONFIG: $TF_CONFIG\"
";

static SETUP_PYTORCH: LazyLock<String> = LazyLock::new(|| {
    let what =
        "# Sets PyTorch's variables from those that the training operator gives to every node.";
    let how = "# Source this file; it changes nothing but the environment.";
    format!("{what}\n{how}\n{}", *PYTORCH_PREAMBLE)
});
const GENERATE_TF_CONFIG: &str = include_str!("generate_tf_config.sh");

impl Framework {
    pub(crate) fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(_, framework)| *framework == self)
            .map_or("", |(name, _)| name)
    }

    /// The ClusterTrainingRuntime that runs it.
    pub(crate) fn runtime(self) -> &'static str {
        match self {
            Self::PyTorch => "pytorch-simple",
            Self::TensorFlow => "tensorflow-distributed",
            Self::Horovod => "horovod",
            Self::DeepSpeed => "deepspeed-distributed",
            Self::Jax => "jax-distributed",
            Self::XgBoost => "xgboost-distributed",
            Self::Mlx => "mlx-distributed",
        }
    }

    /// The ClusterTrainingRuntime that fetches the code from git first, where there is one.
    pub(crate) fn git_runtime(self) -> Option<&'static str> {
        match self {
            Self::PyTorch => Some("pytorch-runtime"),
            Self::TensorFlow => Some("tensorflow-runtime"),
            Self::Horovod | Self::DeepSpeed | Self::Jax | Self::XgBoost | Self::Mlx => None,
        }
    }

    /// The image for requests that name none; `None` leaves the choice to the runtime.
    pub(crate) fn image(self) -> Option<&'static str> {
        match self {
            Self::PyTorch => Some("pytorch/pytorch:2.2.2-cuda11.8-cudnn8-runtime"),
            Self::TensorFlow => Some("tensorflow/tensorflow:2.15.0-gpu"),
            Self::Horovod | Self::DeepSpeed | Self::Jax | Self::XgBoost | Self::Mlx => None,
        }
    }

    /// What starts a script, for requests that give no command.
    pub(crate) fn interpreter(self) -> &'static str {
        if self.has_launcher() {
            return "mpirun python3";
        }
        "python3"
    }

    /// The shell lines that run before the user's command.
    pub(crate) fn preamble(self) -> &'static str {
        match self {
            Self::PyTorch => &PYTORCH_PREAMBLE,
            Self::TensorFlow => TENSORFLOW_PREAMBLE,
            Self::Horovod | Self::DeepSpeed | Self::Jax | Self::XgBoost | Self::Mlx => "",
        }
    }

    /// The shared ConfigMap that it needs in the user's namespace: name, file, content.
    pub(crate) fn system_config_map(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::PyTorch => Some(("pytorch-pet-setup", "setup_pytorch_env.sh", &SETUP_PYTORCH)),
            Self::TensorFlow => Some((
                "tensorflow-tf-config-generator",
                "generate_tf_config.sh",
                GENERATE_TF_CONFIG,
            )),
            Self::Horovod | Self::DeepSpeed | Self::Jax | Self::XgBoost | Self::Mlx => None,
        }
    }

    /// The jobs of its runtime in which the user's code must be visible.
    pub(crate) fn jobs(self) -> &'static [&'static str] {
        if self.has_launcher() {
            &["launcher", "node"]
        } else {
            &["node"]
        }
    }

    pub(crate) fn longest_job(self) -> &'static str {
        if self.has_launcher() {
            "launcher"
        } else {
            "node"
        }
    }

    fn has_launcher(self) -> bool {
        matches!(self, Self::Horovod | Self::DeepSpeed | Self::Mlx)
    }
}

impl FromStr for Framework {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, framework)| *framework)
            .ok_or_else(|| {
                let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
                Refusal::Framework {
                    value: text.to_owned(),
                    known: known.join(", "),
                }
            })
    }
}
