//! The node agent: runs pods as sandboxed processes.

pub mod control;
pub mod gpu;
pub mod image;
pub mod logs;
