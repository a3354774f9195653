//! Tunnel of a client: the bytes that follow the head which opens it, both ways.

mod outlet;

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;

use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use outlet::Outlet;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, split};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::exchange::{Exchange, Next};
use super::request_guard::RequestGuard;
use super::tunnel_reader::{Duplex, TunnelReader};

/// Place of a connection of HTTP/1.1 for the tunnel that it becomes.
pub(super) type TunnelSlot = Rc<Cell<Option<ClientTunnel>>>;

/// Way from a request for a tunnel to the client's bytes.
pub(super) enum Switch {
    /// The whole connection becomes the tunnel, once hyper has sent the head.
    Connection(TunnelSlot),
    /// The stream of HTTP/2 does.
    Stream(OnUpgrade),
}

impl Switch {
    /// Lets a tunnel begin after the head.
    pub(super) fn open(self, tunnel: ClientTunnel) {
        match self {
            Switch::Connection(slot) => slot.set(Some(tunnel)),
            Switch::Stream(stream) => {
                spawn_local(async move {
                    if let Ok(stream) = stream.await {
                        tunnel.run(TokioIo::new(stream), Bytes::new()).await;
                    }
                });
            }
        }
    }
}

/// Tunnel that a handler has opened.
#[derive(Debug)]
pub(super) struct ClientTunnel {
    pub(super) exchange: Exchange,
    pub(super) guard: RequestGuard,
    /// Receives the client's side.
    pub(super) reader: oneshot::Sender<TunnelReader>,
}

impl ClientTunnel {
    /// Carries bytes until the handler ends the tunnel. The end of the client's bytes goes to the handler, which may still respond.
    pub(super) async fn run(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        early: Bytes,
    ) {
        let ClientTunnel {
            mut exchange,
            mut guard,
            reader,
        } = self;
        let (read, mut write) = split(Box::new(stream) as Box<dyn Duplex>);
        if reader.send(TunnelReader::new(early, read)).is_err() {
            // The handler's task has ended, and the exchange says how.
            tracing::trace!("a tunnel was closed before it began");
        }
        let request = Rc::clone(&guard.request);
        let outlet = Outlet::new(&guard.connection);
        loop {
            let most = outlet.room();
            let next = tokio::select! {
                next = poll_fn(|cx| exchange.poll_next(cx, most)) => next,
                () = request.reset() => return,
            };
            request.has_output.set(exchange.has_output());
            match next {
                Next::Data(block) => {
                    request.is_held.set(true);
                    let length = block.len() as u64;
                    tokio::select! {
                        written = outlet.write(&mut write, block) => if written.is_err() {
                            return;
                        },
                        () = request.reset() => return,
                    }
                    request.is_held.set(false);
                    request.on_sent(length);
                }
                Next::Broken => {
                    // The end of the stream would look like that of the tunnel.
                    request.cut();
                    return;
                }
                Next::End(_) => break,
            }
        }
        let connection = Rc::clone(&guard.connection);
        if connection.is_http2() {
            // hyper holds what the client's window has no room for, and says when it does no more.
            request.is_held.set(true);
            if write.shutdown().await.is_err() {
                return;
            }
            request.is_held.set(false);
        }
        guard.complete();
        exchange.finish();
        drop((exchange, guard));
        connection.meter.leave_unread();
        // The client may have closed the connection.
        let _ = write.shutdown().await;
    }
}
