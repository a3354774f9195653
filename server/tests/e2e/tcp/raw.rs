//! A client of TLS over TCP that sends any bytes.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use boring::ssl::{ShutdownState, SslConnector, SslMethod, SslStream, SslVerifyMode};

use tokio::net::TcpSocket;

use crate::client::run;
use crate::server::{Folder, Server};

/// Longest wait for bytes.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// A connection.
pub(crate) struct Raw(SslStream<TcpStream>);

impl Raw {
    /// Connects without ALPN, which means HTTP/1.1.
    pub(crate) fn open(server: &Server) -> Raw {
        Raw::open_with(server.address(), b"")
    }

    /// Connects with the protocols of ALPN, each behind its length.
    pub(crate) fn open_with(server: SocketAddr, protocols: &[u8]) -> Raw {
        Raw::over(TcpStream::connect(server).unwrap(), protocols)
    }

    /// Connects from an address of this host.
    pub(crate) fn open_from(client: Ipv4Addr, server: SocketAddr, protocols: &[u8]) -> Raw {
        let stream = run(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((client, 0).into()).unwrap();
            socket.connect(server).await.unwrap().into_std().unwrap()
        });
        stream.set_nonblocking(false).unwrap();
        Raw::over(stream, protocols)
    }

    /// Begins TLS with the protocols of ALPN.
    pub(crate) fn over(stream: TcpStream, protocols: &[u8]) -> Raw {
        Raw::try_over(stream, protocols).unwrap()
    }

    /// Begins TLS likewise; returns `None` if there is no handshake.
    pub(super) fn try_over(stream: TcpStream, protocols: &[u8]) -> Option<Raw> {
        stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
        let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
        connector.set_verify(SslVerifyMode::NONE);
        if !protocols.is_empty() {
            connector.set_alpn_protos(protocols).unwrap();
        }
        let stream = connector.build().connect("localhost", stream).ok()?;
        Some(Raw(stream))
    }

    /// Returns whether the server has the certificate of a folder.
    pub(crate) fn presents(&self, folder: &Folder) -> bool {
        let certificate = self.0.ssl().peer_certificate().unwrap();
        certificate.to_der().unwrap() == folder.certificate.as_ref()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap();
    }

    /// Sends bytes, unless the server has closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Sends bytes, unless the server has closed the connection or takes none of them for a second.
    pub(crate) fn try_send_soon(&mut self, bytes: &[u8]) -> io::Result<()> {
        let second = Some(Duration::from_secs(1));
        self.0.get_ref().set_write_timeout(second)?;
        self.try_send(bytes)
    }

    /// Reads until the bytes end with `end`.
    pub(crate) fn read_past(&mut self, end: &[u8]) {
        self.try_read_past(end).unwrap();
    }

    /// Reads until the bytes end with `end`; returns `None` if the connection ends before.
    pub(crate) fn try_read_past(&mut self, end: &[u8]) -> Option<()> {
        let mut read = Vec::new();
        while !read.ends_with(end) {
            let mut byte = [0];
            self.0.read_exact(&mut byte).ok()?;
            read.push(byte[0]);
        }
        Some(())
    }

    /// Reads exactly as many bytes.
    pub(crate) fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact(bytes)
    }

    /// Sends close_notify, after which the client sends nothing.
    pub(super) fn finish(&mut self) {
        self.0.shutdown().unwrap();
    }

    /// Reads to the end, and returns whether the server has sent close_notify, without which the bytes may not be whole.
    pub(super) fn ends(mut self) -> bool {
        let mut part = [0; 4096];
        while matches!(self.0.read(&mut part), Ok(1..)) {}
        self.0.get_shutdown().contains(ShutdownState::RECEIVED)
    }

    /// Returns everything until the server closes the connection.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let (mut all, mut part) = (Vec::new(), [0; 4096]);
        loop {
            match self.0.read(&mut part) {
                Ok(0) => return all,
                Ok(count) => all.extend_from_slice(&part[..count]),
                Err(error) => {
                    let waited =
                        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
                    assert!(!waited, "the connection stays open after {all:?}");
                    return all;
                }
            }
        }
    }

    /// Sends bytes and returns everything until the server closes the connection.
    pub(crate) fn all(mut self, bytes: &[u8]) -> Vec<u8> {
        self.send(bytes);
        self.rest()
    }
}

/// Returns the status of the first response, if there is one.
pub(crate) fn status(response: &[u8]) -> Option<u16> {
    let text = String::from_utf8_lossy(response);
    let mut words = text.split_whitespace();
    words.next().filter(|word| word.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}
