//! What can go wrong before the first datagram.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use crate::Backend;

/// Why a listener could not be bound.
#[derive(Debug, Error)]
pub enum BindError {
    /// Somebody has the port.
    #[error(
        "cannot bind {address}: address already in use; stop who uses it or choose another port"
    )]
    InUse {
        /// As asked for.
        address: SocketAddr,
    },
    /// No interface has the address.
    #[error("cannot bind {address}: this host does not have the address")]
    NotHere {
        /// As asked for.
        address: SocketAddr,
    },
    /// A privileged port.
    #[error(
        "cannot bind {address}: not permitted; ports below net.ipv4.ip_unprivileged_port_start \
         need CAP_NET_BIND_SERVICE"
    )]
    Forbidden {
        /// As asked for.
        address: SocketAddr,
    },
    /// The steering byte of a connection ID counts 256 workers at most.
    #[error("cannot bind {address} for {workers} workers: a group has 1 to 256")]
    Workers {
        /// As asked for.
        address: SocketAddr,
        /// As asked for.
        workers: usize,
    },
    /// Anything else.
    #[error("cannot bind {address}: {what}: {source}")]
    Os {
        /// As asked for.
        address: SocketAddr,
        /// The step that failed.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

impl BindError {
    pub(crate) fn new(address: SocketAddr, what: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::InUse { address },
            io::ErrorKind::AddrNotAvailable => Self::NotHere { address },
            io::ErrorKind::PermissionDenied if what == "bind" => Self::Forbidden { address },
            _ => Self::Os {
                address,
                what,
                source,
            },
        }
    }
}

/// Why a driver could not be opened: one line with the cause and the remedy.
#[derive(Debug, Error)]
#[error("cannot open the {backend} dataplane: {step}: {source}; {remedy}")]
pub struct OpenError {
    /// What was tried.
    pub backend: Backend,
    /// The step that failed.
    pub step: &'static str,
    /// The system's answer.
    pub source: io::Error,
    /// What an operator can do.
    pub remedy: &'static str,
}

impl OpenError {
    pub(crate) fn new(backend: Backend, step: &'static str, source: io::Error) -> Self {
        let remedy = match (backend, source.raw_os_error()) {
            (_, Some(libc::EMFILE | libc::ENFILE)) => {
                "raise the limit of open files (ulimit -n, LimitNOFILE=)"
            }
            (_, Some(libc::ENOMEM)) => {
                "raise the limit of locked memory (ulimit -l, LimitMEMLOCK=) or lower rx_buffers"
            }
            (Backend::IoUring, Some(libc::EPERM | libc::EACCES | libc::ENOSYS)) => {
                "io_uring is forbidden here: allow io_uring_setup, io_uring_enter and \
                 io_uring_register in the container's seccomp profile, set sysctl \
                 kernel.io_uring_disabled=0, or choose the mio backend"
            }
            (Backend::IoUring, Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
                "the kernel is too old: multishot recvmsg and deferred task work need Linux 6.1; \
                 choose the mio backend"
            }
            (Backend::IoUring, _) => "choose the mio backend",
            _ => "see the system's limits",
        };
        Self {
            backend,
            step,
            source,
            remedy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_remedy_in_one_line() {
        let cases = [
            (Backend::IoUring, libc::EPERM, "seccomp"),
            (Backend::IoUring, libc::ENOSYS, "kernel.io_uring_disabled"),
            (Backend::IoUring, libc::ENOMEM, "LimitMEMLOCK"),
            (Backend::IoUring, libc::EMFILE, "LimitNOFILE"),
            (Backend::IoUring, libc::EINVAL, "Linux 6.1"),
            (Backend::Mio, libc::EMFILE, "ulimit -n"),
        ];
        for (backend, errno, remedy) in cases {
            let source = io::Error::from_raw_os_error(errno);
            let line = OpenError::new(backend, "a step", source).to_string();
            let parts = [
                backend.name(),
                "a step",
                &format!("os error {errno}"),
                remedy,
            ];
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
