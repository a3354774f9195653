//! hyper's two kinds of connections behind one interface.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};

use super::exchange::{Events, follow};
use super::stream::Stream;
use super::tasks::{Spawner, Task};
use crate::protocol::Version;

pub(super) type Body = Full<Bytes>;
/// Handle of HTTP/1.1, which the open exchange has while there is one.
type Sender1 = Rc<RefCell<Option<http1::SendRequest<Body>>>>;

/// A connection of HTTP/1.1 or HTTP/2. hyper's part is gone once it has nothing more to do.
pub(super) enum Http {
    One {
        sender: Sender1,
        connection: Option<Box<http1::Connection<Stream, Body>>>,
    },
    Two {
        sender: Option<http2::SendRequest<Body>>,
        connection: Option<Box<http2::Connection<Stream, Body, Spawner>>>,
    },
}

impl Http {
    /// Begins HTTP on a stream. The windows of HTTP/2 have 2^N - 1 bytes.
    pub(super) async fn begin(
        version: Version,
        stream: Stream,
        spawner: Spawner,
        window: u32,
        connection_window: u32,
    ) -> hyper::Result<Http> {
        if version == Version::Http1 {
            let (sender, connection) = http1::handshake(stream).await?;
            return Ok(Http::One {
                sender: Rc::new(RefCell::new(Some(sender))),
                connection: Some(Box::new(connection)),
            });
        }
        let mut builder = http2::Builder::new(spawner);
        builder.initial_stream_window_size((1 << window) - 1);
        builder.initial_connection_window_size((1 << connection_window) - 1);
        let (sender, connection) = builder.handshake(stream).await?;
        Ok(Http::Two { sender: Some(sender), connection: Some(Box::new(connection)) })
    }

    pub(super) fn version(&self) -> Version {
        match self {
            Http::One { .. } => Version::Http1,
            Http::Two { .. } => Version::Http2,
        }
    }

    /// Returns whether the server allows a request beside so many open ones. HTTP/1.1 has one at a time.
    pub(super) fn has_room(&self, open: usize) -> bool {
        match self {
            Http::One { sender, connection } => {
                open == 0 && connection.is_some() && sender.borrow().is_some()
            }
            Http::Two { connection, .. } => {
                let most = connection.as_ref().map(|c| c.current_max_send_streams());
                most.is_some_and(|most| open < most)
            }
        }
    }

    /// Returns the exchange of a request; `None` if the connection takes no more.
    pub(super) fn exchange(
        &mut self,
        stream: u64,
        request: Request<Body>,
        events: &Events,
    ) -> Option<Task> {
        let events = Rc::clone(events);
        match self {
            Http::One { sender, .. } => {
                let mut own = sender.borrow_mut().take()?;
                let place = Rc::clone(sender);
                Some(Box::pin(async move {
                    let response = async {
                        own.ready().await?;
                        own.send_request(request).await
                    };
                    let end = follow(stream, response, &events).await;
                    // It has to be back when the end is known.
                    *place.borrow_mut() = Some(own);
                    events.borrow_mut().push_back((stream, end));
                }))
            }
            Http::Two { sender, .. } => {
                let response = sender.as_mut()?.send_request(request);
                Some(Box::pin(async move {
                    let end = follow(stream, response, &events).await;
                    events.borrow_mut().push_back((stream, end));
                }))
            }
        }
    }

    /// Lets hyper do what it can. Returns the result once it has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<hyper::Result<()>> {
        let result = match self {
            Http::One { connection, .. } => Pin::new(connection.as_mut()?).poll(cx),
            Http::Two { connection, .. } => Pin::new(connection.as_mut()?).poll(cx),
        };
        let Poll::Ready(result) = result else {
            return None;
        };
        match self {
            Http::One { connection, .. } => *connection = None,
            Http::Two { connection, .. } => *connection = None,
        }
        Some(result)
    }

    /// Closes the connection when its exchanges have ended.
    pub(super) fn close(&mut self) {
        match self {
            Http::One { sender, .. } => *sender.borrow_mut() = None,
            Http::Two { sender, .. } => *sender = None,
        }
    }
}
