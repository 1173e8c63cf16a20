//! Where a pod is in its life.

use serde::{Deserialize, Serialize};

/// The life of a pod, as the supervisor sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// The sandbox or an init container is still being worked on.
    #[default]
    Pending,
    /// All init containers are done and the containers have been started.
    Running,
    /// All containers ended well and none will be started again.
    Succeeded,
    /// All containers ended, at least one of them badly, and none will be started again.
    Failed,
}

impl Phase {
    /// Nothing more will happen.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// The name in `status.phase`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }
}
