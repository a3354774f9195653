//! The upstream's side of a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use boring::ssl::{SslAcceptor, SslStream};
use socket2::SockRef;

/// Protocol of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Connection that an upstream has accepted.
pub(super) struct Peer {
    stream: Stream,
    /// Whether this is the first request.
    pub(super) is_new: bool,
}

enum Stream {
    Plain(TcpStream),
    Tls(SslStream<TcpStream>),
}

/// Starts an upstream that serves each connection by `serve` until that fails.
pub(super) fn start(
    serve: fn(&mut Peer) -> io::Result<()>,
    tls: Option<Arc<SslAcceptor>>,
    open: &Arc<AtomicUsize>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let open = Arc::clone(open);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (tls, open) = (tls.clone(), Arc::clone(&open));
            open.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                if let Some(mut peer) = Peer::accept(stream, tls.as_deref()) {
                    while serve(&mut peer).is_ok() {
                        peer.is_new = false;
                    }
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    address
}

impl Peer {
    fn accept(stream: TcpStream, tls: Option<&SslAcceptor>) -> Option<Peer> {
        stream.set_nodelay(true).unwrap();
        let stream = match tls {
            None => Stream::Plain(stream),
            Some(tls) => Stream::Tls(tls.accept(stream).ok()?),
        };
        Some(Peer { stream, is_new: true })
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes.as_ref()),
            Stream::Tls(stream) => stream.write_all(bytes.as_ref()),
        }
    }

    pub(super) fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.read_exact(bytes),
            Stream::Tls(stream) => stream.read_exact(bytes),
        }
    }

    /// Takes what comes until the other side closes the connection.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        loop {
            self.read_exact(&mut [0])?;
        }
    }

    /// Closes the connection without an end of TLS.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Closes the connection after the end of TLS, if there is TLS.
    pub(super) fn end(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = &mut self.stream {
            let _ = stream.shutdown();
        }
        self.cut()
    }

    /// Closes the connection by RST.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        let stream = match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref(),
        };
        SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
        self.cut()
    }
}
