//! TLS over a metered stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use boring::ssl::SslRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_boring::SslStream;

use super::metered::MeteredStream;

/// Stream of TLS that sends its close_notify once, and leaves the rest of the end to the stream below: BoringSSL would read what the
/// client still sends, and fail on it.
#[derive(Debug)]
pub(super) struct TlsStream(SslStream<MeteredStream>);

impl TlsStream {
    /// Wraps a stream after its handshake.
    pub(super) fn new(stream: SslStream<MeteredStream>) -> TlsStream {
        TlsStream(stream)
    }

    /// Acknowledges the end of the handshake at once. In TLS 1.3 the client has the last word, and BoringSSL sends the tickets for its
    /// next session only with the first response.
    pub(super) fn acknowledge(&self) {
        self.0.get_ref().acknowledge();
    }

    /// Gathers records from now on until a flush.
    pub(super) fn gather(&mut self) {
        self.0.get_mut().gather();
    }

    /// Lends the state of TLS.
    pub(super) fn ssl(&self) -> &SslRef {
        self.0.ssl()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Most reads find nothing, which BoringSSL takes long to say. It holds no whole record that it has not decrypted.
        if self.0.ssl().pending() == 0 {
            ready!(self.0.get_ref().poll_readable(cx));
        }
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.0.get_ref().is_ending() {
            Pin::new(self.0.get_mut()).poll_shutdown(cx)
        } else {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }
}
