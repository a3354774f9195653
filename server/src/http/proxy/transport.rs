//! Transports of upstream connections.

mod host_name;
mod resolver;
mod tcp;
mod unix;

use std::rc::Rc;
use std::time::Duration;

use sluicegate_config::UpstreamAddress;
use tokio::io::{AsyncRead, AsyncWrite};

use self::host_name::HostName;
use self::unix::SocketPath;
use super::counters::Tally;
use super::failure::Failure;

/// Transport to one upstream: opens the byte streams of its connections.
///
/// [`MeteredStream`](super::metered_stream::MeteredStream) counts the bytes of HTTP above the transport. TLS would be a
/// variant around the transport that carries it, and its stream would be that of the decrypted bytes. So a request whose
/// connection fails in a TLS handshake would count as not sent.
#[derive(Debug)]
pub(super) enum Transport {
    /// TCP, to any address of the name.
    Tcp(Rc<HostName>),
    /// Unix stream socket at this path.
    Unix(SocketPath),
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
            UpstreamAddress::Unix(path) => Transport::Unix(SocketPath::new(path)),
        }
    }

    /// Opens a stream within `limit`.
    ///
    /// # Errors
    /// Why there is none; [`Failure::ConnectTimeout`] after `limit`.
    pub(super) async fn connect(&self, limit: Duration) -> Result<ByteStream, Failure> {
        Ok(match self {
            Transport::Tcp(name) => Box::new(tcp::connect(name, limit).await?),
            Transport::Unix(path) => Box::new(path.connect(limit).await?),
        })
    }
}
