//! Controllers against the embedded API server, in one process and without a socket.

mod scheduler;
