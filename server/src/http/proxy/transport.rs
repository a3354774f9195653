//! Transports of upstream connections.

mod host_name;
mod resolver;
pub(super) mod sessions;
mod tcp;
mod tls;
mod unix;

use std::rc::Rc;
use std::time::Duration;

use sluicegate_config::UpstreamAddress;
use tokio::io::{AsyncRead, AsyncWrite};

use self::host_name::HostName;
use self::tls::TlsServer;
use self::unix::SocketPath;
use super::counters::Tally;
use super::failure::Failure;
use super::tls::TlsSettings;

/// Transport to one upstream: opens the byte streams of its connections.
///
/// [`MeteredStream`](super::metered_stream::MeteredStream) counts the bytes of HTTP above the transport. So a request whose
/// connection fails in a TLS handshake counts as not sent.
#[derive(Debug)]
pub(super) enum Transport {
    /// TCP, to any address of the name.
    Tcp(Rc<HostName>),
    /// TLS over TCP.
    Tls(Box<TlsServer>),
    /// Unix stream socket at this path.
    Unix(SocketPath),
}

/// Byte stream of a connection, whatever its transport.
pub(super) type ByteStream = Box<dyn AsyncReadWrite>;

/// Stream that can be read and written.
pub(super) trait AsyncReadWrite: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncReadWrite for S {}

impl Transport {
    /// Returns the transport to an address. A pool with an address that asks for TLS has TLS settings.
    pub(super) fn new(
        address: &UpstreamAddress,
        tls: Option<&TlsSettings>,
        tally: &Rc<Tally>,
    ) -> Transport {
        match address {
            UpstreamAddress::Tcp(server) => Transport::Tcp(HostName::new(server, tally)),
            UpstreamAddress::Tls(server) => {
                let settings =
                    tls.expect("TLS settings of a pool with an address that asks for TLS");
                let host = HostName::new(server, tally);
                Transport::Tls(Box::new(TlsServer::new(server, host, settings)))
            }
            UpstreamAddress::Unix(path) => Transport::Unix(SocketPath::new(path)),
        }
    }

    /// Opens a stream within `limit`.
    ///
    /// # Errors
    /// Why there is none; [`Failure::ConnectTimeout`] after `limit`.
    pub(super) async fn connect(&self, limit: Duration) -> Result<ByteStream, Failure> {
        Ok(match self {
            Transport::Tls(server) => Box::new(server.connect(limit).await?),
            Transport::Tcp(name) => Box::new(tcp::connect(name, limit).await?),
            Transport::Unix(path) => Box::new(path.connect(limit).await?),
        })
    }
}
