//! Connects to an upstream over TLS.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use boring::ssl::ConnectConfiguration;
use boring::x509::X509VerifyError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_boring::{HandshakeError, SslStream};

use super::super::failure::Failure;
use super::super::tls::{ALPN_HTTP1, TlsContext, TlsSettings};
use super::host_name::HostName;
use super::sessions::Sessions;
use super::{proxy_protocol, tcp};

/// Byte stream of a TLS connection.
pub(in crate::proxy) type TlsStream = SslStream<EndlessStream>;

/// TLS server at any address of a name.
#[derive(Debug)]
pub(in crate::proxy) struct TlsServer {
    host: Rc<HostName>,
    /// Name to verify and to send.
    name: String,
    context: Arc<TlsContext>,
    sessions: Sessions,
}

impl TlsServer {
    /// Returns the server of an address, `host:port`.
    pub(super) fn new(server: &str, host: Rc<HostName>, settings: &TlsSettings) -> TlsServer {
        TlsServer {
            host,
            name: name_of(server, settings),
            context: Arc::clone(&settings.context),
            sessions: Sessions::default(),
        }
    }

    /// Connects, sends `header` and completes the handshake within `limit`. Without `http2`, only HTTP/1.1 is offered.
    ///
    /// # Errors
    /// Why there is no connection, or why the upstream is not trusted.
    pub(super) async fn connect(
        &self,
        limit: Duration,
        header: &[u8],
        http2: bool,
    ) -> Result<TlsStream, Failure> {
        let deadline = Instant::now() + limit;
        let stream = tcp::connect(&self.host, limit).await?;
        let stream = proxy_protocol::begin(stream, header).await?;
        let configuration = self.configuration(http2).map_err(|error| {
            tracing::warn!(%error, name = self.name, "TLS to an upstream cannot be set up");
            Failure::TlsHandshake
        })?;
        let handshake = tokio_boring::connect(configuration, &self.name, EndlessStream(stream));
        match timeout_at(deadline, handshake).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                // The result of a verification that was not asked for is no cause.
                let failure =
                    if self.context.verify { failure(&error) } else { Failure::TlsHandshake };
                tracing::debug!(%error, name = self.name, "a TLS handshake with an upstream failed");
                Err(failure)
            }
            Err(_) => Err(Failure::ConnectTimeout),
        }
    }

    /// Returns whether upstreams may choose HTTP/2.
    pub(super) fn offers_http2(&self) -> bool {
        self.context.http2
    }

    fn configuration(
        &self,
        http2: bool,
    ) -> Result<ConnectConfiguration, boring::error::ErrorStack> {
        let mut configuration = self.context.connector.configure()?;
        if !http2 {
            configuration.set_alpn_protos(ALPN_HTTP1)?;
        }
        configuration.set_verify_hostname(self.context.verify);
        self.sessions.offer(&mut configuration)?;
        Ok(configuration)
    }
}

/// Returns the name to verify and to send for an address, `host:port`.
pub(super) fn name_of(server: &str, settings: &TlsSettings) -> String {
    let own = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let name = settings.name.as_deref().unwrap_or(own);
    // Neither SNI nor certificates have the brackets of an IPv6 address or the dot of the root (RFC 6066 §3).
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.trim_end_matches('.').to_owned()
}

/// Returns the failure that an error of a handshake with verification stands for.
fn failure(error: &HandshakeError<EndlessStream>) -> Failure {
    let verified = error.ssl().map(|ssl| ssl.verify_result());
    match verified {
        Some(Err(refused)) => of_verification(refused),
        _ => Failure::TlsHandshake,
    }
}

/// Returns the failure that the result of a verification stands for.
pub(super) fn of_verification(refused: X509VerifyError) -> Failure {
    match refused {
        // There was no certificate.
        X509VerifyError::INVALID_CALL => Failure::TlsHandshake,
        X509VerifyError::HOSTNAME_MISMATCH | X509VerifyError::IP_ADDRESS_MISMATCH => {
            Failure::CertificateName
        }
        X509VerifyError::CERT_HAS_EXPIRED | X509VerifyError::CERT_NOT_YET_VALID => {
            Failure::CertificateExpired
        }
        X509VerifyError::DEPTH_ZERO_SELF_SIGNED_CERT
        | X509VerifyError::SELF_SIGNED_CERT_IN_CHAIN
        | X509VerifyError::UNABLE_TO_GET_ISSUER_CERT
        | X509VerifyError::UNABLE_TO_GET_ISSUER_CERT_LOCALLY
        | X509VerifyError::UNABLE_TO_VERIFY_LEAF_SIGNATURE => Failure::CertificateIssuer,
        _ => Failure::CertificateInvalid,
    }
}

/// TCP stream of a TLS connection, whose reads fail where TCP ends.
///
/// TLS ends before, with close_notify (RFC 8446 §6.1), after which nothing is read. If it has not, somebody on the path may
/// have cut off the rest, so the end of TCP must not look like that of a response.
pub(in crate::proxy) struct EndlessStream(TcpStream);

impl AsyncRead for EndlessStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        ready!(Pin::new(&mut self.0).poll_read(cx, buf))?;
        if room > 0 && buf.filled().len() == before {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for EndlessStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
