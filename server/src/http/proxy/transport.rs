//! Transports of upstream connections.

mod host_name;
mod tcp;
mod unix;

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use sluicegate_config::UpstreamAddress;
use tokio::io::{AsyncRead, AsyncWrite};

use self::host_name::HostName;
use super::counters::Tally;
use super::failure::Failure;

/// Transport to one upstream: opens the byte streams of its connections.
///
/// TLS is a variant of its own, around the transport that carries it. Its stream is the one of the decrypted bytes, so
/// [`MeteredStream`](super::metered_stream::MeteredStream) counts bytes of HTTP with every transport: a request whose
/// connection has failed in a handshake counts as not sent.
#[derive(Debug)]
pub(super) enum Transport {
    /// TCP, to any address of the name.
    Tcp(Rc<HostName>),
    /// Unix stream socket at this path.
    Unix(PathBuf),
}

/// Byte stream of a connection, whatever its transport.
pub(super) type ByteStream = Box<dyn AsyncReadWrite>;

/// Stream that can be read and written.
pub(super) trait AsyncReadWrite: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncReadWrite for S {}

impl Transport {
    pub(super) fn new(address: &UpstreamAddress, tally: &Rc<Tally>) -> Transport {
        match address {
            UpstreamAddress::Tcp(server) => Transport::Tcp(HostName::new(server, tally)),
            UpstreamAddress::Unix(path) => Transport::Unix(path.clone()),
        }
    }

    /// Opens a stream within `limit`.
    ///
    /// # Errors
    /// Why there is none; [`Failure::ConnectTimeout`] after `limit`.
    pub(super) async fn connect(&self, limit: Duration) -> Result<ByteStream, Failure> {
        Ok(match self {
            Transport::Tcp(name) => Box::new(tcp::connect(name, limit).await?),
            Transport::Unix(path) => Box::new(unix::connect(path, limit).await?),
        })
    }
}

/// Returns the failure behind an error of `connect(2)` that means the same with every transport.
fn classify(error: &io::Error) -> Failure {
    let code = error.raw_os_error();
    let local = [
        libc::EMFILE,
        libc::ENFILE,
        libc::EADDRNOTAVAIL,
        libc::ENOBUFS,
        libc::ENOMEM,
    ];
    if code.is_some_and(|code| local.contains(&code)) {
        return Failure::Exhausted;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused,
        io::ErrorKind::TimedOut => Failure::ConnectTimeout,
        io::ErrorKind::ConnectionReset => Failure::Closed,
        _ => Failure::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_descriptors_is_not_the_upstreams_fault() {
        let of = |code| classify(&io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::EMFILE), Failure::Exhausted);
        assert!(!of(libc::ENFILE).blames_upstream());
        assert_eq!(of(libc::ECONNREFUSED), Failure::Refused);
        assert_eq!(of(libc::ETIMEDOUT), Failure::ConnectTimeout);
        assert_eq!(of(libc::EHOSTUNREACH), Failure::Unreachable);
    }
}
