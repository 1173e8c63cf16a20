//! What tests of the whole need: a plane in the process, a fake node, a fake clock, and builders.
//!
//! ```no_run
//! # async fn example() {
//! use astrago_testkit::{Plane, train_job};
//!
//! let plane = Plane::start().await;
//! plane.run_controllers();
//! plane.create(&train_job("demo").nodes(2).build()).await;
//! plane.node.succeed("demo-node-0", 0).await;
//! plane.node.succeed("demo-node-0", 1).await;
//! plane.until_condition("demo", "Complete").await;
//! # }
//! ```
//!
//! The plane is our own API server on a temporary directory, reached without a socket, with the real controllers.
//! Only the node is fake: it takes pods to Running, and to their end when told. Nothing sleeps: time is what the
//! test says, and [`eventually`] waits for conditions.

mod builders;
mod clock;
mod eventually;
mod node;
mod plane;

pub use builders::{RuntimeBuilder, TrainJobBuilder, runtime, train_job};
pub use clock::FakeClock;
pub use eventually::eventually;
pub use node::{Behaviour, FakeNode};
pub use plane::{NAMESPACE, Plane};
