//! Upstream that speaks HTTP/2, for tests.

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;

/// Request that an upstream has received.
pub(super) type Asked = (http::Request<RecvStream>, SendResponse<Bytes>);

/// Upstream that speaks HTTP/2 without TLS and does what the test says.
pub(super) struct Http2Upstream {
    pub(super) server: Server,
    pub(super) builder: Builder,
}

/// Upstream's end of a connection, which a task drives.
pub(super) struct Http2Conn {
    requests: UnboundedReceiver<Asked>,
    orders: UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// Order to the task of a connection.
enum Order {
    /// It sends GOAWAY with an error.
    Abort(h2::Reason),
    /// It neither reads nor writes any more.
    Freeze,
}

impl Http2Upstream {
    pub(super) async fn new() -> Http2Upstream {
        Http2Upstream { server: Server::new().await, builder: Builder::new() }
    }

    pub(super) fn address(&self) -> UpstreamAddress {
        UpstreamAddress::H2c(self.server.address().to_string())
    }

    /// Returns an edge that has only this upstream, and makes one attempt.
    pub(super) fn edge(&self) -> Edge {
        Edge::new(Proxy { retries: 0, ..proxy_to(vec![self.address()]) })
    }

    pub(super) async fn accept(&self) -> Http2Conn {
        let stream = self.server.0.accept().await.unwrap().0;
        Http2Conn::new(stream, &self.builder).await
    }

    /// Accepts the connection of a request that has begun, and waits for the request.
    pub(super) async fn asked(
        &self,
        (front, task): (TestFront, JoinHandle<()>),
    ) -> (TestFront, JoinHandle<()>, Http2Conn, Asked) {
        let mut conn = self.accept().await;
        let asked = conn.asked().await;
        (front, task, conn, asked)
    }

    /// Returns a connection of the edge that has served a request.
    pub(super) async fn warm(&self, edge: &Edge) -> Http2Conn {
        let begun = edge.get("/");
        let mut conn = self.accept().await;
        conn.respond().await;
        assert_ok([begun]).await;
        conn
    }
}

impl Http2Conn {
    pub(super) async fn new<S>(stream: S, builder: &Builder) -> Http2Conn
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let connection = builder.handshake(stream).await.unwrap();
        let (asked, requests) = unbounded_channel();
        let (orders, given) = unbounded_channel();
        let task = tokio::task::spawn_local(serve(connection, asked, given));
        Http2Conn { requests, orders, task }
    }

    /// Waits for a request.
    pub(super) async fn asked(&mut self) -> Asked {
        self.requests.recv().await.expect("a request arrives")
    }

    /// Waits for a request, and responds to it.
    pub(super) async fn respond(&mut self) -> http::Request<RecvStream> {
        let (request, response) = self.asked().await;
        ok(response);
        request
    }

    /// Sends GOAWAY with an error.
    pub(super) fn abort(&self, reason: h2::Reason) {
        let _ = self.orders.send(Order::Abort(reason));
    }

    /// Stops to read and to write.
    pub(super) fn freeze(&self) {
        let _ = self.orders.send(Order::Freeze);
    }

    /// Waits until the connection is closed, by either side.
    pub(super) async fn closed(self) {
        self.task.await.unwrap();
    }

    /// Closes the connection without a word.
    pub(super) async fn vanish(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn serve<S>(
    mut connection: Connection<S, Bytes>,
    asked: UnboundedSender<Asked>,
    mut orders: UnboundedReceiver<Order>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        tokio::select! {
            request = connection.accept() => match request {
                Some(Ok(request)) => {
                    let _ = asked.send(request);
                }
                Some(Err(_)) | None => return,
            },
            order = orders.recv() => match order {
                Some(Order::Abort(reason)) => connection.abrupt_shutdown(reason),
                Some(Order::Freeze) => std::future::pending().await,
                None => {
                    // The test has dropped its end.
                    while connection.accept().await.is_some() {}
                    return;
                }
            },
        }
    }
}

/// Returns the head of a response with these fields.
pub(super) fn response(status: u16, fields: &[(&'static str, &str)]) -> http::Response<()> {
    let mut response = http::Response::new(());
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
    for (name, value) in fields {
        let value = http::HeaderValue::from_str(value).unwrap();
        response.headers_mut().append(*name, value);
    }
    response
}

/// Responds `ok`.
pub(super) fn ok(response: SendResponse<Bytes>) {
    let mut body = begin(response, &[]);
    body.send_data(Bytes::from_static(b"ok"), true).unwrap();
}

/// Asserts that each of these requests gets the response of [`ok`].
pub(super) async fn assert_ok(begun: impl IntoIterator<Item = (TestFront, JoinHandle<()>)>) {
    for (front, task) in begun {
        let received = front.response().await;
        assert_eq!((&*received.body, received.complete), (&b"ok"[..], true));
        task.await.unwrap();
    }
}

/// Begins a response with these fields.
pub(super) fn begin(
    mut sender: SendResponse<Bytes>,
    fields: &[(&'static str, &str)],
) -> SendStream<Bytes> {
    sender.send_response(response(200, fields), false).unwrap()
}

/// Reads a body, and returns it with its trailers.
pub(super) async fn read(body: &mut RecvStream) -> (Vec<u8>, Option<http::HeaderMap>) {
    let mut read = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        read.extend_from_slice(&data);
    }
    (read, body.trailers().await.unwrap())
}

/// Waits until the proxy has reset the stream, and returns the reason.
pub(super) async fn reset(body: &mut RecvStream) -> Option<h2::Reason> {
    loop {
        match body.data().await {
            Some(Ok(data)) => {
                let _ = body.flow_control().release_capacity(data.len());
            }
            Some(Err(error)) => return error.reason(),
            None => panic!("the request is complete"),
        }
    }
}

/// Upstream's end of a connection, frame by frame (RFC 9113 §4.1).
pub(super) struct Frames(pub(super) Conn);

impl Frames {
    /// Accepts a connection, and sends settings.
    pub(super) async fn accept(server: &Server) -> Frames {
        let mut frames = Frames(server.accept().await);
        frames.0.take(24).await;
        frames.send(4, 0, 0, &[]).await;
        frames
    }

    /// Sends a frame.
    pub(super) async fn send(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).unwrap();
        self.0.send(&[0, 0, length, kind, flags, 0, 0, 0, stream]).await;
        self.0.send(payload).await;
    }

    /// Reads frames up to the head of a request, and returns its stream.
    pub(super) async fn asked(&mut self) -> u8 {
        loop {
            let head = self.0.take(9).await;
            let length = usize::from(head[1]) << 8 | usize::from(head[2]);
            self.0.take(length).await;
            if head[3] == 1 {
                return head[8];
            }
        }
    }
}
