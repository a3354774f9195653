//! Tunnel of a client: the bytes that follow the head which opens it, both ways.

mod outlet;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::ready;

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use outlet::Outlet;
use tokio::io::{AsyncRead, AsyncWrite, split};
use tokio::sync::oneshot;

use super::exchange::{Exchange, Next};
use super::request_guard::RequestGuard;
use super::tunnel_reader::{Duplex, TunnelReader};

/// Place for the tunnel that a connection of HTTP/1.1, or a stream of HTTP/2, becomes once the head that opens it is sent.
pub(super) type TunnelSlot = Rc<Cell<Option<ClientTunnel>>>;

/// Tunnel that a handler has opened.
#[derive(Debug)]
pub(super) struct ClientTunnel {
    pub(super) exchange: Exchange,
    pub(super) guard: RequestGuard,
    /// Receives the client's side.
    pub(super) reader: oneshot::Sender<TunnelReader>,
}

impl ClientTunnel {
    /// Carries bytes over a whole connection, of which `early` ones came with the head.
    pub(super) async fn run_on_connection(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        early: Bytes,
    ) {
        let (read, write) = split(Box::new(stream) as Box<dyn Duplex>);
        let reader = TunnelReader::Connection { early, read };
        self.run(reader, Outlet::Connection(write)).await;
    }

    /// Carries bytes over a stream of HTTP/2.
    pub(super) async fn run_on_stream(self, received: RecvStream, sent: SendStream<Bytes>) {
        let buffer = self.guard.connection.handle().send_buffer.stream();
        let reader = TunnelReader::Stream(received);
        self.run(reader, Outlet::Stream(sent, buffer)).await;
    }

    /// Carries bytes until the handler ends the tunnel. The end of the client's bytes goes to the handler, which may still respond.
    async fn run(self, inlet: TunnelReader, mut outlet: Outlet) {
        let ClientTunnel { mut exchange, guard, reader } = self;
        if reader.send(inlet).is_err() {
            // The handler's task has ended, and the exchange says how.
            tracing::trace!("a tunnel was closed before it began");
        }
        let request = Rc::clone(&guard.request);
        loop {
            let next = poll_fn(|cx| {
                let room = outlet.poll_room(cx);
                // What waits here waits for the client to take what HTTP/2 holds.
                request.set_held(room.is_pending());
                request.note_wait();
                exchange.poll_next(cx, ready!(room)?).map(io::Result::Ok)
            });
            let Ok(next) = next.await else {
                return;
            };
            let has_output = request.exchange().has_output();
            request.set_output(has_output);
            request.note_wait();
            match next {
                Next::Data(block) => {
                    request.set_held(true);
                    request.note_wait();
                    let length = block.len() as u64;
                    if outlet.write(block).await.is_err() {
                        return;
                    }
                    request.set_held(false);
                    request.note_wait();
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
        exchange.finish();
        drop((exchange, guard));
        connection.meter.leave_unread();
        outlet.end().await;
    }
}
