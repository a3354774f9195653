//! A FastCGI server of a test.

use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::pairs;

/// Request as the server received it.
pub(super) struct ReceivedRequest {
    pub(super) params: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

/// Connection of a request.
pub(super) struct Connection(TcpStream);

/// Server whose requests are handled by a function.
pub(super) struct FastCgiServer {
    pub(super) address: String,
}

/// Returns a record of a response, with padding.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, 0, 1, high, low, 5, 0][..], content, &[0; 5]].concat()
}

/// Returns a record with output.
pub(super) fn output(content: &[u8]) -> Vec<u8> {
    record(6, content)
}

/// Returns a record for the log.
pub(super) fn error(content: &[u8]) -> Vec<u8> {
    record(7, content)
}

/// Returns the records that end a response with a protocol status.
pub(super) fn end(status: u8) -> Vec<u8> {
    [output(b""), end_request(status)].concat()
}

/// Returns the last record of a response alone.
pub(super) fn end_request(status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, 0, status, 0, 0, 0])
}

impl FastCgiServer {
    /// Starts a server on the current `LocalSet`, which reads requests to their end.
    pub(super) fn start(
        handle: impl AsyncFn(ReceivedRequest, &mut Connection) + 'static,
    ) -> FastCgiServer {
        FastCgiServer::start_raw(async move |connection| {
            if let Some(request) = connection.request().await {
                handle(request, connection).await;
            }
        })
    }

    /// Starts a server whose function reads the request itself.
    pub(super) fn start_raw(handle: impl AsyncFn(&mut Connection) + 'static) -> FastCgiServer {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let handle = Rc::new(handle);
        tokio::task::spawn_local(async move {
            loop {
                let mut connection = Connection(listener.accept().await.unwrap().0);
                let handle = Rc::clone(&handle);
                tokio::task::spawn_local(async move { handle(&mut connection).await });
            }
        });
        FastCgiServer { address }
    }
}

impl Connection {
    /// Reads a record: its type and its content.
    pub(super) async fn record(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut header = [0; 8];
        self.0.read_exact(&mut header).await.ok()?;
        assert_eq!((header[0], &header[2..4], header[6]), (1, &[0, 1][..], 0));
        let mut content = vec![0; usize::from(u16::from_be_bytes([header[4], header[5]]))];
        self.0.read_exact(&mut content).await.ok()?;
        Some((header[1], content))
    }

    /// Reads a whole request; `None` if it breaks off.
    async fn request(&mut self) -> Option<ReceivedRequest> {
        assert_eq!(self.record().await?, (1, vec![0, 1, 0, 0, 0, 0, 0, 0]));
        let (mut streams, mut ended) = ([Vec::new(), Vec::new()], [false; 2]);
        while ended != [true; 2] {
            let (kind, content) = self.record().await?;
            let place = usize::from(kind - 4);
            assert!(!ended[place]);
            ended[place] = content.is_empty();
            streams[place].extend_from_slice(&content);
        }
        let [params, body] = streams;
        let params = pairs(&params);
        let length = params.get("CONTENT_LENGTH").map(|length| length.parse().unwrap());
        assert_eq!(length.unwrap_or(0), body.len());
        Some(ReceivedRequest { params, body })
    }

    /// Sends bytes, as far as the client takes them.
    pub(super) async fn send(&mut self, parts: &[Vec<u8>]) -> bool {
        self.0.write_all(&parts.concat()).await.is_ok()
    }

    /// Waits until the client has closed the connection.
    pub(super) async fn closed(&mut self) {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest).await;
    }
}
