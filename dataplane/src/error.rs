//! Errors of opening: a listener that can't be bound, a driver that can't be opened.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// Error of binding a listener.
#[derive(Debug, Error)]
pub enum BindError {
    /// Somebody else has the port.
    #[error(
        "cannot bind {address}: address already in use; stop what uses it or choose another port"
    )]
    InUse {
        /// Address that was asked for.
        address: SocketAddr,
    },
    /// No interface has the address.
    #[error("cannot bind {address}: this host does not have the address")]
    NotHere {
        /// Address that was asked for.
        address: SocketAddr,
    },
    /// The port is privileged.
    #[error(
        "cannot bind {address}: not permitted; ports below net.ipv4.ip_unprivileged_port_start \
         need CAP_NET_BIND_SERVICE"
    )]
    Forbidden {
        /// Address that was asked for.
        address: SocketAddr,
    },
    /// Inherited sockets can't serve.
    #[error("cannot take over inherited sockets: {reason}")]
    Inherited {
        /// Cause.
        reason: &'static str,
    },
    /// A group has 1 to 256 workers, which one byte of a connection ID counts, and each has a socket.
    #[error(
        "cannot bind {address} for {workers} workers: a group has 1 to 256, each with a socket"
    )]
    Workers {
        /// Address that was asked for.
        address: SocketAddr,
        /// Number that was asked for.
        workers: usize,
    },
    /// Another step failed.
    #[error("cannot bind {address}: {what}: {source}")]
    Os {
        /// Address that was asked for.
        address: SocketAddr,
        /// The step that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl BindError {
    pub(crate) fn new(address: SocketAddr, what: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { address },
            io::ErrorKind::PermissionDenied if what == "bind" => Self::Forbidden { address },
            _ => Self::Os { address, what, source },
        }
    }
}

/// Error of opening a driver: one line with the cause and the remedy.
#[derive(Debug, Error)]
#[error("cannot open the {backend} dataplane: {step}: {source}; {remedy}")]
pub struct OpenError {
    /// Name of the backend that was tried.
    pub backend: &'static str,
    /// The step that failed.
    pub step: &'static str,
    /// The system's error.
    pub source: io::Error,
    /// Advice to the operator.
    pub remedy: &'static str,
}

impl OpenError {
    /// Makes an error. `remedy` is the backend's own advice, for causes that do not concern every backend.
    pub(crate) fn new(
        backend: &'static str,
        step: &'static str,
        source: io::Error,
        remedy: &'static str,
    ) -> Self {
        let remedy = match source.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => {
                "raise the limit of open files (ulimit -n, LimitNOFILE=)"
            }
            Some(libc::ENOMEM) => {
                "raise the limit of locked memory (ulimit -l, LimitMEMLOCK=) or lower rx_buffers"
            }
            _ => remedy,
        };
        Self { backend, step, source, remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_remedy_in_one_line() {
        let cases = [
            (libc::ENOMEM, "LimitMEMLOCK"),
            (libc::EMFILE, "LimitNOFILE"),
            (libc::EPERM, "ask the driver"),
        ];
        for (errno, remedy) in cases {
            let source = io::Error::from_raw_os_error(errno);
            let line = OpenError::new("tape", "a step", source, "ask the driver").to_string();
            let parts = ["tape", "a step", &format!("os error {errno}"), remedy];
            for part in parts {
                assert!(line.contains(part), "{part} is missing: {line}");
            }
            assert!(!line.contains('\n'));
        }
    }

    #[test]
    fn a_refused_address_says_why() {
        let address = "127.0.0.1:443".parse().unwrap();
        let of = |what, errno| {
            BindError::new(address, what, io::Error::from_raw_os_error(errno)).to_string()
        };
        assert!(of("bind", libc::EADDRINUSE).contains("already in use"));
        assert!(of("bind", libc::EADDRNOTAVAIL).contains("does not have the address"));
        assert!(of("bind", libc::EACCES).contains("CAP_NET_BIND_SERVICE"));
        assert!(of("socket", libc::EACCES).contains("socket: "));
    }
}
