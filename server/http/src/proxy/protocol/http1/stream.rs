//! An exchange on an HTTP/1.1 connection to an upstream.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use tokio::time::Instant;

use super::connection::Http1Connection;
use super::idle::IdleConnections;
use crate::proxy::failure::Failure;
use crate::proxy::interim::Interims;
use crate::proxy::metered_stream::Meter;
use crate::proxy::protocol::{BrokenBody, Progress, UpstreamStream};
use crate::proxy::request_error::RequestError;
use crate::proxy::response::{BodySize, ReceivedHead};
use crate::proxy::tunnel::TunnelStream;
use crate::proxy::upload::{Upload, UploadBody};
use crate::proxy::upstream_head::UpstreamHead;

/// Exchange that has a connection for itself, and drives it: dropping the exchange closes the connection. After an exchange that
/// leaves it fit for another it goes to the idle ones.
pub(in crate::proxy) struct Http1Stream {
    connection: Box<Http1Connection>,
    idle: Rc<IdleConnections>,
    /// Body of the request that was sent.
    sent: Option<Rc<Upload>>,
}

impl Http1Stream {
    /// An exchange on `connection`, which becomes one of `idle` once it is released.
    pub(in crate::proxy) fn new(
        connection: Box<Http1Connection>,
        idle: &Rc<IdleConnections>,
    ) -> Box<Http1Stream> {
        Box::new(Http1Stream { connection, idle: Rc::clone(idle), sent: None })
    }
}

impl UpstreamStream for Http1Stream {
    fn send(&mut self, head: &UpstreamHead<'_>, body: UploadBody) -> Result<(), RequestError> {
        self.sent = Some(Rc::clone(&body.0));
        self.connection.send(head, body);
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        self.connection.poll(cx);
    }

    fn poll_response(
        &mut self,
        cx: &mut Context<'_>,
        interims: &Interims,
    ) -> Poll<Result<ReceivedHead, Failure>> {
        match &self.sent {
            Some(_) => self.connection.poll_head(cx, interims),
            None => Poll::Pending,
        }
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        self.connection.poll_body(cx)
    }

    fn body_size(&self) -> BodySize {
        self.connection.body_size()
    }

    fn progress(&self) -> Progress {
        let meter = self.connection.meter();
        match (meter.read(), meter.written()) {
            (0, 0) => Progress::Unprocessed,
            (0, _) => Progress::Unanswered,
            _ => Progress::Answered,
        }
    }

    fn is_over(&mut self, cx: &mut Context<'_>, deadline: Instant) -> bool {
        self.connection.is_over(cx, deadline)
    }

    fn meter(&self) -> &Meter {
        self.connection.meter()
    }

    fn is_reused(&self) -> bool {
        self.connection.is_reused()
    }

    fn is_sent(&self) -> bool {
        self.sent.as_ref().is_some_and(|upload| upload.finished())
    }

    fn takes_tunnels(&self) -> bool {
        true
    }

    fn into_tunnel(self: Box<Self>) -> Pin<Box<dyn Future<Output = Option<TunnelStream>>>> {
        let Http1Stream { connection, .. } = *self;
        Box::pin(std::future::ready(connection.into_tunnel()))
    }

    fn release(self: Box<Self>) {
        let Http1Stream { connection, idle, .. } = *self;
        idle.keep(connection);
    }
}
