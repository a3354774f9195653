//! The way from a socket to HTTP: connects, agrees on TLS and the protocol.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};

use boring::ssl::{HandshakeError, MidHandshakeSslStream, Ssl, SslStream};

use super::frames::Frames;
use super::http::Http;
use super::stream::{Account, Layer, Socket, Stream};
use super::tasks::Spawner;
use crate::client::exchanges::{Agreed, Exchanges};
use crate::context::Context;
use crate::end::{self, End};
use crate::protocol::{Protocol, Version};
use crate::tls;

/// Result of TLS so far.
type Attempt = Result<SslStream<Socket>, HandshakeError<Socket>>;

/// Step of the way from a socket to HTTP.
enum Phase {
    /// The kernel connects. TLS comes next, if there is some.
    Connecting(Socket, Option<Ssl>),
    Tls(MidHandshakeSslStream<Socket>),
    /// hyper begins HTTP.
    Http(Pin<Box<dyn Future<Output = hyper::Result<Http>>>>),
}

/// A connection on its way to HTTP.
pub(super) struct Handshake {
    phase: Phase,
    stream: StreamParts,
}

/// Parts of the future stream, beside its socket.
struct StreamParts {
    account: Rc<Account>,
    buffer: Rc<RefCell<Vec<u8>>>,
}

/// Result of a step.
pub(super) enum Step {
    /// Another one is possible at once.
    Next(Handshake),
    /// It waits for the socket.
    Wait(Handshake),
    Open(Http),
    Failed(End),
}

impl Handshake {
    /// Begins with a socket that the kernel connects.
    pub(super) fn new(socket: Socket, tls: Option<Ssl>, buffer: Rc<RefCell<Vec<u8>>>) -> Self {
        Handshake {
            phase: Phase::Connecting(socket, tls),
            stream: StreamParts { account: Rc::default(), buffer },
        }
    }

    /// Returns the account of the stream to be.
    pub(super) fn account(&self) -> Rc<Account> {
        Rc::clone(&self.stream.account)
    }

    /// Returns whether the server has accepted the connection.
    pub(super) fn is_connected(&self) -> bool {
        !matches!(self.phase, Phase::Connecting(..))
    }

    /// Makes a step.
    pub(super) fn go_on(
        self,
        poll: &mut task::Context<'_>,
        spawner: &Spawner,
        exchanges: &mut Exchanges,
        cx: &mut Context<'_>,
    ) -> Step {
        let peer = exchanges.peer;
        let Handshake { phase, stream: parts } = self;
        let wait = |phase, stream| Step::Wait(Handshake { phase, stream });
        match phase {
            Phase::Connecting(socket, tls) => {
                let error = socket.0.take_error().unwrap_or_else(Some);
                if let Some(error) = error {
                    return Step::Failed(end::of_connect(peer, &error));
                }
                if let Err(error) = socket.0.peer_addr() {
                    if error.kind() != ErrorKind::NotConnected {
                        return Step::Failed(end::of_connect(peer, &error));
                    }
                    return wait(Phase::Connecting(socket, tls), parts);
                }
                let Some(tls) = tls else {
                    let Protocol::Plain(version) = cx.plan.protocol else {
                        unreachable!("there is TLS otherwise");
                    };
                    let agreed = Agreed { protocol: version.without_tls(), ..Agreed::default() };
                    exchanges.on_established(agreed, cx);
                    return parts.begin(version, Layer::Plain(socket), spawner, cx);
                };
                exchanges.heard = true;
                let attempt = tls.connect(socket);
                parts.after_tls(attempt, spawner, exchanges, cx)
            }
            Phase::Tls(stream) => {
                let attempt = stream.handshake();
                parts.after_tls(attempt, spawner, exchanges, cx)
            }
            Phase::Http(mut begin) => match begin.as_mut().poll(poll) {
                Poll::Ready(Ok(http)) => Step::Open(http),
                Poll::Ready(Err(error)) => Step::Failed(end::of_stream(peer, Some(&error))),
                Poll::Pending => wait(Phase::Http(begin), parts),
            },
        }
    }
}

impl StreamParts {
    /// Goes on after TLS, as far as it has come.
    fn after_tls(
        self,
        attempt: Attempt,
        spawner: &Spawner,
        exchanges: &mut Exchanges,
        cx: &mut Context<'_>,
    ) -> Step {
        let peer = exchanges.peer;
        let offered = cx.plan.protocol.offered();
        let stream = match attempt {
            Ok(stream) => stream,
            Err(HandshakeError::WouldBlock(stream)) => {
                let phase = Phase::Tls(stream);
                return Step::Wait(Handshake { phase, stream: self });
            }
            Err(error) => return Step::Failed(end::of_tls(peer, &error, offered)),
        };
        let chosen = stream.ssl().selected_alpn_protocol();
        let version = match chosen {
            Some(name) => offered.iter().find(|v| v.alpn().as_bytes() == name),
            // A server without ALPN speaks HTTP/1.1.
            None => offered.iter().find(|v| **v == Version::Http1),
        };
        let Some(version) = version.copied() else {
            return Step::Failed(end::of_no_protocol(peer, offered));
        };
        // The handshake may have been complete within this turn.
        cx.tick();
        let agreed = Agreed {
            lines: tls::lines(stream.ssl()),
            protocol: version.alpn(),
            is_resumed: stream.ssl().session_reused(),
            early_data: None,
        };
        exchanges.on_established(agreed, cx);
        self.begin(version, Layer::Tls(stream), spawner, cx)
    }

    /// Begins HTTP.
    fn begin(self, version: Version, layer: Layer, spawner: &Spawner, cx: &Context<'_>) -> Step {
        if version == Version::Http2 {
            *self.account.frames.borrow_mut() = Some(Frames::default());
        }
        self.account.begin_turn();
        let stream =
            Stream { layer, account: Rc::clone(&self.account), buffer: Rc::clone(&self.buffer) };
        let options = &cx.plan.options;
        let (window, connection_window) = (options.window_bits, options.connection_window_bits);
        let begin = Http::begin(version, stream, spawner.clone(), window, connection_window);
        let phase = Phase::Http(Box::pin(begin));
        Step::Next(Handshake { phase, stream: self })
    }
}
