//! One connection: its TLS handshake, its protocol, and its end.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use boring::ssl::{NameType, Ssl, SslContext};
use http::Version;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::observe::access::TlsSession;
use sluicegate_http::gate::MAX_FIELDS;
use sluicegate_http::peer::{ClientCertificate, Peer, PeerConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_boring::{HandshakeError, SslStreamBuilder};

use super::addresses::{Addresses, addresses};
use super::connection::Connection;
use super::errors::on_error;
use super::front::{Admission, Front};
use super::http2::Http2;
use super::listener_phases::Phase;
use super::metered::MeteredStream;
use super::paced::PacedStream;
use super::refused_heads;
use super::served::{Http1, Served};
use super::service::RequestService;
use super::tls_stream::TlsStream;
use super::tunnel::TunnelSlot;
use super::watchdog::{Verdict, Watchdog};
use crate::acme;

/// Reasons of BoringSSL for the end of a handshake whose client has no valid certificate.
const UNCERTIFIED: [&str; 2] = ["PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED"];
/// Time from the drain of its listener in which the first request of a connection of HTTP/1.1 may still come.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes that a connection of HTTP/1.1 may hold beside a head of `limits.header_bytes`.
const HTTP1_ROOM: u64 = 16 * 1024;

/// Serves a connection until it is closed, perhaps in favour of others.
pub(super) async fn serve(
    mut admission: Admission,
    mut stream: TcpStream,
    sender: ValidatedAddress,
) {
    let addresses = addresses(&mut admission, &mut stream, sender).await;
    let Some(addresses) = addresses else {
        return;
    };
    tokio::select! {
        () = serve_admitted(&admission, stream, addresses) => {}
        () = admission.handle.closed() => {}
    }
}

async fn serve_admitted(admission: &Admission, stream: TcpStream, addresses: Addresses) {
    let (front, listener) = (Rc::clone(&admission.front), &admission.listener);
    // Without it the system would hold the end of a response back until the client acknowledges what came before.
    let _ = stream.set_nodelay(true);
    let Some(settings) = listener.settings(&front.config().listeners) else {
        return;
    };
    let meter = &admission.handle.meter;
    let stream = MeteredStream::new(stream, meter);
    let describe = |version, scheme| PeerConnection {
        trusted_proxies: Arc::clone(&settings.trusted_proxies),
        ..PeerConnection::tcp(
            Arc::clone(&settings.name),
            version,
            scheme,
            Box::from(admission.id()),
        )
    };
    let connect = |described| {
        let peer = Peer {
            address: addresses.client,
            proxy: None,
            local: addresses.local,
            early_data: false,
            connection: Arc::new(described),
        };
        Connection::new(&front, peer, &settings, &admission.handle)
    };
    let Some(context) = &settings.tls else {
        let connection = connect(describe(Version::HTTP_11, "http"));
        drop(settings);
        return serve_http1(&connection, stream, listener.phase()).await;
    };
    let mut stream = match handshake(admission, context, stream).await {
        Some(Opened::Tls(stream)) => stream,
        Some(Opened::Plain(stream)) => {
            let connection = connect(describe(Version::HTTP_11, "http"));
            drop(settings);
            return serve_http1(&connection, stream, listener.phase()).await;
        }
        None => return,
    };
    let ssl = stream.ssl();
    if ssl.selected_alpn_protocol() == Some(acme::PROTOCOL) {
        // The handshake was the response (RFC 8737 §3).
        return;
    }
    let is_http2 = ssl.selected_alpn_protocol() == Some(b"h2");
    let version = if is_http2 { Version::HTTP_2 } else { Version::HTTP_11 };
    let connection = connect(PeerConnection {
        server_name: ssl.servername(NameType::HOST_NAME).map(Box::from),
        alpn: ssl.selected_alpn_protocol().unwrap_or_default().into(),
        tls: Some(TlsSession::of(ssl)),
        client_certificate: { ssl.peer_certificate() }
            .and_then(|certificate| ClientCertificate::of(&certificate).ok())
            .map(Arc::new),
        ..describe(version, "https")
    });
    // A reload frees the certificates of the previous configuration.
    drop(settings);
    if is_http2 {
        stream.gather();
        serve_http2(&connection, stream, listener.phase()).await;
    } else {
        // In HTTP/2 the server sends its settings at once.
        stream.acknowledge();
        serve_http1(&connection, stream, listener.phase()).await;
    }
}

/// What a client of a port for TLS speaks.
enum Opened {
    Tls(TlsStream),
    /// HTTP without TLS.
    Plain(MeteredStream),
}

async fn handshake(
    admission: &Admission,
    context: &SslContext,
    stream: MeteredStream,
) -> Option<Opened> {
    let (front, listener) = (&admission.front, &admission.listener);
    let meter = &admission.handle.meter;
    let limit = front.config().site.limits().handshake_timeout;
    let accepting = async {
        // A client that has sent nothing yet takes no turn and no memory for TLS.
        stream.readable().await;
        if stream.begins_with_method().await {
            return Some(Ok(Opened::Plain(stream)));
        }
        let accepting = SslStreamBuilder::new(Ssl::new(context).ok()?, stream).accept();
        let is_begun = || meter.written() > 0;
        let accepted = front.handshakes.run(accepting, is_begun).await;
        Some(accepted.map(|stream| Opened::Tls(TlsStream::new(stream))))
    };
    let accepted = tokio::select! {
        accepted = timeout(limit, accepting) => accepted,
        () = listener.stopped() => return None,
    };
    match accepted {
        Ok(accepted) => accepted?.inspect_err(|error| on_failure(front, error)).ok(),
        Err(_) => {
            front.count(|counters| counters.connections.handshakes_timed_out += 1);
            None
        }
    }
}

/// Counts a TLS handshake that failed.
fn on_failure(front: &Front, error: &HandshakeError<MeteredStream>) {
    tracing::trace!(%error, "a TLS handshake failed");
    let text = error.to_string();
    let is_uncertified = UNCERTIFIED.iter().any(|reason| text.contains(reason));
    front.count(|counters| {
        if is_uncertified {
            counters.connections.handshakes_uncertified += 1;
        } else {
            counters.connections.handshakes_failed += 1;
        }
    });
}

async fn serve_http1<S>(connection: &Rc<Connection>, stream: S, phase: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let config = connection.front.config();
    let limits = config.site.limits();
    let mut builder = http1::Builder::new();
    // hyper responds with 431 to a head that fills the buffer, and needs 8 KiB at least.
    let room = limits.header_bytes.saturating_add(HTTP1_ROOM);
    builder
        .timer(TokioTimer::new())
        .max_buf_size(usize::try_from(room).unwrap_or(usize::MAX))
        .max_headers(MAX_FIELDS)
        .header_read_timeout((!limits.client_timeout.is_zero()).then_some(limits.client_timeout));
    // A reload frees the previous configuration.
    drop(config);
    let slot = TunnelSlot::default();
    let service = RequestService::new(connection, &slot);
    let stream = TokioIo::new(PacedStream::new(stream, connection));
    let served = Http1::new(builder.serve_connection(stream, service), slot, &connection.meter);
    drive(connection, served, phase).await;
}

async fn serve_http2<S>(connection: &Rc<Connection>, stream: S, phase: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    drive(connection, Http2::new(connection, stream), phase).await;
}

/// Drives a connection to its end. It ends early if its listener stops, or if the client makes no progress.
async fn drive(
    connection: &Rc<Connection>,
    served: impl Served,
    mut phase: watch::Receiver<Phase>,
) {
    let mut served = pin!(served);
    let mut watchdog = Watchdog::new(connection);
    let mut left = false;
    let mut first_request_until = None;
    loop {
        let now = *phase.borrow_and_update();
        if connection.is_broken() || now == Phase::Stopped {
            return;
        }
        if now == Phase::Draining {
            connection.leave();
        }
        if connection.is_leaving() && !left {
            // hyper would close a connection of HTTP/1.1 at once whose first request may be on its way. The response to that one
            // closes it.
            let awaits_first =
                now == Phase::Draining && !connection.is_http2() && connection.taken() == 0;
            let until = awaits_first
                .then(|| *first_request_until.get_or_insert_with(|| Instant::now() + GRACE));
            if until.is_none_or(|until| until <= Instant::now()) {
                left = true;
                first_request_until = None;
                served.as_mut().leave();
            }
        }
        let grace = async {
            match first_request_until {
                Some(until) => sleep_until(until).await,
                None => pending().await,
            }
        };
        tokio::select! {
            result = poll_fn(|cx| {
                let polled = connection.turn(|| served.as_mut().poll(cx));
                refused_heads::record_all(connection);
                polled
            }) => {
                if let Err(error) = result {
                    on_error(connection, &error);
                }
                return;
            }
            _ = phase.changed() => {}
            () = connection.news() => {}
            () = grace => {}
            () = watchdog.tick() => match watchdog.check(connection) {
                Verdict::Fine => {}
                Verdict::Leave => connection.leave(),
                Verdict::Stalled => {
                    connection.front.count(|counters| counters.connections.closed_stalled += 1);
                    return;
                }
                Verdict::Over => return,
            }
        }
    }
}
