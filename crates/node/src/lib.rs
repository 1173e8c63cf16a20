//! The node agent: runs pods as sandboxed processes.
