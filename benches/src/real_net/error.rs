//! Errors that keep a run over real sockets from starting.

use std::io;

use thiserror::Error;

use crate::linkem::NetworkError;
use crate::virtual_net::SimulationError;

/// Why a run could not start, or broke. A download that does not finish is no error.
#[derive(Debug, Error)]
pub enum RealNetError {
    /// No namespaces or TUN devices.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server with quiche's own congestion control could not be set up, or broke the protocol.
    #[error(transparent)]
    Quiche(#[from] SimulationError),
    /// A program did not start.
    #[error("cannot start {0}: {1}")]
    Program(String, String),
    /// The shell cannot run the client.
    #[error("cannot run the client `{0}`: the shell ended with {1}")]
    Client(String, i32),
    /// A picture could not be drawn.
    #[error("cannot draw {0}: {1}")]
    Plot(String, String),
}
