//! Transports of upstream connections.

mod attempts;
mod host_name;
pub(super) mod proxy_protocol;
pub(super) mod quic;
mod resolver;
pub(super) mod sessions;
mod tcp;
mod tls;
mod unix;

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use http::uri::Scheme;
use sluicegate_config::UpstreamAddress;
use tokio::io::{AsyncRead, AsyncWrite};

use self::host_name::HostName;
use self::quic::{QuicConnection, QuicServer};
use self::tls::{TlsServer, TlsStream};
use self::unix::SocketPath;
use super::counters::Tally;
use super::definition::UpstreamSettings;
use super::failure::Failure;

/// Transport to one upstream: opens its connections.
///
/// [`MeteredStream`](super::metered_stream::MeteredStream) counts the bytes of HTTP above the transport. So a request whose
/// connection fails in a TLS handshake counts as not sent.
#[derive(Debug)]
pub(super) enum Transport {
    /// TCP, to any address of the name.
    Tcp(Rc<HostName>),
    /// TCP, to any address of the name, for HTTP/2.
    H2c(Rc<HostName>),
    /// TLS over TCP.
    Tls(Box<TlsServer>),
    /// QUIC over UDP.
    Quic(Box<QuicServer>),
    /// Unix stream socket at this path, for one of the protocols.
    Unix(SocketPath, Protocol),
}

/// Byte stream of a connection, whatever its transport.
pub(super) type ByteStream = Box<dyn AsyncReadWrite>;

/// Protocols that connections to upstreams speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    Http3,
}

/// A connection that is open, before HTTP begins on it.
pub(super) enum Opened {
    /// A byte stream, and the protocol to speak on it.
    Stream(ByteStream, Protocol),
    /// A connection of QUIC, which speaks HTTP/3.
    Quic(Box<QuicConnection>),
}

impl Opened {
    /// Returns the protocol to speak.
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Opened::Stream(_, protocol) => *protocol,
            Opened::Quic(_) => Protocol::Http3,
        }
    }
}

/// Stream that can be read and written.
pub(super) trait AsyncReadWrite: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncReadWrite for S {}

impl Transport {
    /// Returns the transport to an address of a pool with these settings. One with an address that asks for TLS has TLS settings.
    pub(super) fn new(
        address: &UpstreamAddress,
        settings: &UpstreamSettings,
        tally: &Rc<Tally>,
    ) -> Transport {
        let name = |server: &str| HostName::new(server, &settings.resolver, tally);
        let tls = || {
            let tls = settings.tls.as_ref();
            tls.expect("TLS settings of a pool with an address that asks for TLS")
        };
        match address {
            UpstreamAddress::Tcp(server) => Transport::Tcp(name(server)),
            UpstreamAddress::Tls(server) => {
                Transport::Tls(Box::new(TlsServer::new(server, name(server), tls())))
            }
            UpstreamAddress::H3(server) => {
                let server = QuicServer::new(server, name(server), tls(), settings);
                Transport::Quic(Box::new(server))
            }
            UpstreamAddress::H2c(server) => Transport::H2c(name(server)),
            UpstreamAddress::Unix(path) => Transport::Unix(SocketPath::new(path), Protocol::Http1),
            UpstreamAddress::FastCgi(server) => Transport::Tcp(name(server)),
            UpstreamAddress::UnixFastCgi(path) => {
                Transport::Unix(SocketPath::new(path), Protocol::Http1)
            }
            UpstreamAddress::UnixH2c(path) => {
                Transport::Unix(SocketPath::new(path), Protocol::Http2)
            }
        }
    }

    /// Returns the protocol of all connections; `None` if the upstream chooses it for each.
    pub(super) fn protocol(&self) -> Option<Protocol> {
        match self {
            Transport::Tls(server) if server.offers_http2() => None,
            Transport::H2c(_) => Some(Protocol::Http2),
            Transport::Quic(_) => Some(Protocol::Http3),
            Transport::Tcp(_) | Transport::Tls(_) => Some(Protocol::Http1),
            Transport::Unix(_, protocol) => Some(*protocol),
        }
    }

    /// Returns whether the upstream does not speak HTTP/1.1.
    pub(super) fn lacks_http1(&self) -> bool {
        self.protocol().is_some_and(|protocol| protocol != Protocol::Http1)
    }

    /// Returns the scheme of requests to the upstream.
    pub(super) fn scheme(&self) -> Scheme {
        match self {
            Transport::Tls(_) | Transport::Quic(_) => Scheme::HTTPS,
            Transport::Tcp(_) | Transport::H2c(_) | Transport::Unix(..) => Scheme::HTTP,
        }
    }

    /// Opens a connection within `limit`. `header` goes ahead of everything, TLS included; QUIC has no place for one.
    ///
    /// # Errors
    /// Why there is none; [`Failure::ConnectTimeout`] after `limit`.
    pub(super) async fn connect(&self, limit: Duration, header: &[u8]) -> Result<Opened, Failure> {
        if let Transport::Quic(server) = self {
            return Ok(Opened::Quic(Box::new(server.connect(limit).await?)));
        }
        let (stream, protocol) = self.connect_for(limit, header, None).await?;
        Ok(Opened::Stream(stream, protocol))
    }

    /// Opens a byte stream within `limit`, whatever is spoken on it.
    ///
    /// # Errors
    /// Those of [`Transport::connect`].
    pub(super) async fn stream(
        &self,
        limit: Duration,
        header: &[u8],
    ) -> Result<ByteStream, Failure> {
        let (stream, _) = self.connect_for(limit, header, None).await?;
        Ok(stream)
    }

    /// Opens a stream within `limit` for HTTP/1.1.
    ///
    /// # Errors
    /// Those of [`Transport::connect`]; [`Failure::NoWebsocket`] for an upstream that does not speak it.
    pub(super) async fn connect_http1(
        &self,
        limit: Duration,
        header: &[u8],
    ) -> Result<ByteStream, Failure> {
        if self.lacks_http1() {
            return Err(Failure::NoWebsocket);
        }
        let (stream, protocol) = self.connect_for(limit, header, Some(Protocol::Http1)).await?;
        if protocol == Protocol::Http1 { Ok(stream) } else { Err(Failure::NoWebsocket) }
    }

    /// Opens a stream, and offers only the protocol `only` where the upstream would choose. Over QUIC there is none.
    async fn connect_for(
        &self,
        limit: Duration,
        header: &[u8],
        only: Option<Protocol>,
    ) -> Result<(ByteStream, Protocol), Failure> {
        Ok(match self {
            Transport::Tls(server) => {
                let http2 = only != Some(Protocol::Http1);
                let stream = server.connect(limit, header, http2).await?;
                let protocol = chosen(&stream);
                (Box::new(stream), protocol)
            }
            Transport::Quic(_) => return Err(Failure::NoWebsocket),
            Transport::Tcp(name) => {
                let stream = tcp::connect(name, limit).await?;
                (Box::new(proxy_protocol::begin(stream, header).await?), Protocol::Http1)
            }
            Transport::H2c(name) => {
                let stream = tcp::connect(name, limit).await?;
                (Box::new(proxy_protocol::begin(stream, header).await?), Protocol::Http2)
            }
            Transport::Unix(path, protocol) => {
                let stream = path.connect(limit).await?;
                (Box::new(proxy_protocol::begin(stream, header).await?), *protocol)
            }
        })
    }
}

/// Returns the addresses of a host by these name servers, or those of the system if there are none; none if the name has none.
pub(super) async fn look_up(host: &str, servers: &[SocketAddr]) -> Vec<IpAddr> {
    resolver::look_up(host, servers, false).await.addresses
}

/// Returns the protocol that the upstream has chosen: HTTP/1.1 if it does not know ALPN.
fn chosen(stream: &TlsStream) -> Protocol {
    if stream.ssl().selected_alpn_protocol() == Some(b"h2") {
        Protocol::Http2
    } else {
        Protocol::Http1
    }
}
