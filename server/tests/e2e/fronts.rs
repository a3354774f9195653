//! The same request over each of the protocols that clients speak: HTTP/3 by `h3`, HTTP/2 by `h2`, and HTTP/1.1 as bytes.

use std::net::SocketAddr;
use std::time::Duration;

use boring::ssl::{SslConnector, SslMethod, SslVerifyMode};
use bytes::Bytes;
use h2::client::SendRequest;
use h3::error::StreamError;
use http::{HeaderMap, Method, Request};
use tokio::net::TcpStream;

use crate::client::{Client, Session, run};
use crate::server::Folder;
use crate::tcp::raw::Raw;

/// H3_NO_ERROR.
const NO_ERROR: u32 = 0x100;
/// Time between two looks at whether a connection has sent its last packet.
const PAUSE: Duration = Duration::from_millis(1);

/// Protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    Http3,
    Http2,
    Http1,
}

pub(crate) const FRONTS: [Front; 3] = [Front::Http3, Front::Http2, Front::Http1];

/// Response as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing is missing by the rules of the protocol: status, value of `proxy-status`, and body.
    Whole(u16, Option<String>, Vec<u8>),
    /// The stream was reset, or the connection closed, before the head or within the body.
    Broken,
}

impl Front {
    /// Sends `GET path` over a connection of its own.
    pub(crate) fn get(self, server: SocketAddr, folder: &Folder, path: &str) -> Outcome {
        self.ask(server, folder, Method::GET, path)
    }

    /// Sends a request without a body over a connection of its own.
    pub(crate) fn ask(
        self,
        server: SocketAddr,
        folder: &Folder,
        method: Method,
        path: &str,
    ) -> Outcome {
        if self == Front::Http1 {
            return http1(server, &method, path);
        }
        let request = Request::builder().method(method);
        let request = request.uri(format!("https://localhost{path}")).body(());
        let request = request.unwrap();
        run(async {
            if self == Front::Http3 {
                return http3(server, folder, request).await;
            }
            http2(server, request).await.unwrap_or(Outcome::Broken)
        })
    }
}

/// Connects with HTTP/2 over TLS.
pub(crate) async fn connect(server: SocketAddr) -> SendRequest<Bytes> {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    connector.set_alpn_protos(b"\x02h2").unwrap();
    let stream = TcpStream::connect(server).await.unwrap();
    let configuration = connector.build().configure().unwrap();
    let stream = tokio_boring::connect(configuration, "localhost", stream).await;
    let (sender, connection) = h2::client::handshake(stream.unwrap()).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

fn proxy_status(fields: &HeaderMap) -> Option<String> {
    let value = fields.get("proxy-status")?;
    Some(value.to_str().unwrap().to_owned())
}

/// Checks that a body which has ended has the announced length.
fn check_length(fields: &HeaderMap, body: &[u8]) {
    if let Some(length) = fields.get("content-length") {
        assert_eq!(*length, body.len().to_string(), "the length of a body that looks whole");
    }
}

async fn http3(server: SocketAddr, folder: &Folder, request: Request<()>) -> Outcome {
    let client = Client::new(folder);
    let mut session = client.connect(server).await;
    let outcome = over(&mut session, request).await;
    leave(&client, &session).await;
    // A reset may overtake the head.
    outcome.unwrap_or(Outcome::Broken)
}

/// Closes a connection, and waits until CONNECTION_CLOSE is sent: otherwise the server learns of the end by its timeout only. The
/// client itself would keep the connection for three PTOs more (RFC 9000 §10.2).
async fn leave(client: &Client, session: &Session) {
    let sent = || session.connection.stats().udp_tx.datagrams;
    let before = sent();
    session.connection.close(NO_ERROR.into(), b"");
    // Nothing else is sent from now on, and nothing at all where the server has closed the connection.
    while sent() == before && client.endpoint.open_connections() > 0 {
        tokio::time::sleep(PAUSE).await;
    }
}

async fn over(session: &mut Session, request: Request<()>) -> Result<Outcome, StreamError> {
    let mut response = session.try_ask(request).await?;
    response.try_finally().await?;
    let mut body = Vec::new();
    while let Some(piece) = response.try_piece().await? {
        body.extend_from_slice(&piece);
    }
    let fields = response.head.headers();
    check_length(fields, &body);
    let status = response.head.status().as_u16();
    Ok(Outcome::Whole(status, proxy_status(fields), body))
}

async fn http2(server: SocketAddr, request: Request<()>) -> Result<Outcome, h2::Error> {
    let mut client = connect(server).await;
    let (response, _) = client.send_request(request, true)?;
    let (head, mut body) = response.await?.into_parts();
    let mut bytes = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        bytes.extend_from_slice(&piece);
    }
    body.trailers().await?;
    check_length(&head.headers, &bytes);
    let cause = proxy_status(&head.headers);
    Ok(Outcome::Whole(head.status.as_u16(), cause, bytes))
}

fn http1(server: SocketAddr, method: &Method, path: &str) -> Outcome {
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let received = Raw::open_with(server, b"").all(request.as_bytes());
    whole(&received).unwrap_or(Outcome::Broken)
}

/// Takes the bytes of a connection that was closed apart; `None` if its response is not whole (RFC 9112 §8).
fn whole(received: &[u8]) -> Option<Outcome> {
    let mut lines = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut lines);
    let httparse::Status::Complete(end) = head.parse(received).unwrap() else {
        return None;
    };
    let value = |wanted: &str| {
        let mut lines = head.headers.iter();
        let line = lines.find(|line| line.name.eq_ignore_ascii_case(wanted))?;
        Some(String::from_utf8(line.value.to_vec()).unwrap())
    };
    let body = &received[end..];
    let body = match (value("transfer-encoding"), value("content-length")) {
        (Some(coding), None) => {
            assert_eq!(coding, "chunked");
            chunks(body)?
        }
        (None, Some(length)) => {
            let length: usize = length.parse().unwrap();
            assert!(body.len() <= length, "more than the announced length");
            (body.len() == length).then(|| body.to_vec())?
        }
        framing => panic!("a body without an end: {framing:?}"),
    };
    Some(Outcome::Whole(head.code.unwrap(), value("proxy-status"), body))
}

/// Returns the content of chunks without trailers; `None` if the last one is missing.
fn chunks(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    loop {
        let httparse::Status::Complete((at, size)) = httparse::parse_chunk_size(bytes).unwrap()
        else {
            return None;
        };
        let size = usize::try_from(size).unwrap();
        let block = bytes.get(at..at + size + 2)?;
        assert!(block.ends_with(b"\r\n"), "{block:?}");
        content.extend_from_slice(&block[..size]);
        bytes = &bytes[at + size + 2..];
        if size == 0 {
            assert_eq!(bytes, b"", "nothing follows the last chunk");
            return Some(content);
        }
    }
}
