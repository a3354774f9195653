//! An exchange on an HTTP/1.1 connection to an upstream.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Version;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::connection::Http1Connection;
use super::idle::IdleConnections;
use crate::proxy::failure::Failure;
use crate::proxy::interim::Interims;
use crate::proxy::metered_stream::Meter;
use crate::proxy::protocol::{BrokenBody, Progress, UpstreamStream};
use crate::proxy::request_error::RequestError;
use crate::proxy::response::BodySize;
use crate::proxy::tunnel::TunnelStream;
use crate::proxy::upload::{Upload, UploadBody};

type ResponseFuture = Pin<Box<dyn Future<Output = hyper::Result<http::Response<Incoming>>>>>;

/// Exchange that has a connection for itself, and drives it: dropping the exchange closes the connection. After an exchange that
/// leaves it fit for another it goes to the idle ones.
pub(in crate::proxy) struct Http1Stream {
    connection: Http1Connection,
    idle: Rc<IdleConnections>,
    upload: Option<Rc<Upload>>,
    response: Option<ResponseFuture>,
    body: Option<Incoming>,
    /// hyper rewrites later requests to the version of an older upstream, without their bodies.
    is_fit: bool,
}

impl Http1Stream {
    /// An exchange on `connection`, which becomes one of `idle` once it is released.
    pub(in crate::proxy) fn new(
        connection: Http1Connection,
        idle: &Rc<IdleConnections>,
    ) -> Box<Http1Stream> {
        Box::new(Http1Stream {
            connection,
            idle: Rc::clone(idle),
            upload: None,
            response: None,
            body: None,
            is_fit: false,
        })
    }

    fn take_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<http::Response<()>, Failure>> {
        let Some(response) = &mut self.response else {
            return Poll::Pending;
        };
        response.as_mut().poll(cx).map(|response| {
            self.response = None;
            let (parts, body) = response.map_err(|error| failure(&error))?.into_parts();
            self.is_fit = parts.version == Version::HTTP_11;
            self.body = Some(body);
            Ok(http::Response::from_parts(parts, ()))
        })
    }

    fn take_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map_err(|_| BrokenBody)))
    }
}

impl UpstreamStream for Http1Stream {
    fn send(
        &mut self,
        mut request: http::Request<UploadBody>,
        interims: &Arc<Interims>,
    ) -> Result<(), RequestError> {
        let collector = Arc::clone(interims);
        hyper::ext::on_informational(&mut request, move |response| {
            collector.add(response.status(), response.headers());
        });
        self.upload = Some(Rc::clone(&request.body().0));
        self.response = Some(Box::pin(self.connection.send(request)));
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        self.connection.poll(cx);
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<http::Response<()>, Failure>> {
        if let Poll::Ready(response) = self.take_response(cx) {
            return Poll::Ready(response);
        }
        self.connection.poll(cx);
        // What the connection has brought is seen in the same turn.
        self.take_response(cx)
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenBody>>> {
        if let Poll::Ready(frame) = self.take_frame(cx) {
            return Poll::Ready(frame);
        }
        self.connection.poll(cx);
        self.take_frame(cx)
    }

    fn body_size(&self) -> BodySize {
        match &self.body {
            Some(body) => {
                BodySize { length: body.size_hint().exact(), is_end: body.is_end_stream() }
            }
            None => BodySize { length: None, is_end: true },
        }
    }

    fn progress(&self) -> Progress {
        let meter = self.connection.meter();
        match (meter.read(), meter.written()) {
            (0, 0) => Progress::Unprocessed,
            (0, _) => Progress::Unanswered,
            _ => Progress::Answered,
        }
    }

    fn meter(&self) -> &Meter {
        self.connection.meter()
    }

    fn is_reused(&self) -> bool {
        self.connection.is_reused()
    }

    fn is_sent(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| upload.finished())
    }

    fn takes_tunnels(&self) -> bool {
        true
    }

    fn into_tunnel(self: Box<Self>) -> Pin<Box<dyn Future<Output = Option<TunnelStream>>>> {
        let Http1Stream { connection, .. } = *self;
        Box::pin(connection.into_tunnel())
    }

    fn release(self: Box<Self>) {
        if self.is_fit {
            let Http1Stream { connection, idle, .. } = *self;
            idle.keep(connection);
        }
    }
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse_too_large() {
        Failure::HeadTooLarge
    } else if error.is_parse() {
        Failure::Malformed
    } else {
        Failure::Closed
    }
}
