//! Connects to an upstream over QUIC.

mod socket;
mod thread;
mod tickets;

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use boring::error::ErrorStack;
use sluicegate_quic_client::{
    Cause, CloseReason, Config, Http3Client, Limits, ServerName, Step, random_id,
};
use tokio::time::{Instant, sleep_until};

pub(in crate::proxy) use self::socket::QuicSocket;
use self::socket::{IDLE, MAX_DATAGRAM};
pub(in crate::proxy) use self::thread::{set_time, with_buffers};
pub(in crate::proxy) use self::tickets::Tickets;
use super::super::congestion::CongestionSettings;
use super::super::definition::UpstreamSettings;
use super::super::failure::Failure;
use super::super::tls::{TlsContext, TlsSettings};
use super::host_name::HostName;
use super::{attempts, tls};

/// Bytes of a response's body that an upstream may send ahead of the client at first. A client that reads them within two round
/// trips gets twice as many, up to [`MAX_STREAM_WINDOW`].
const STREAM_WINDOW: u64 = 256 << 10;
/// The same, at most.
const MAX_STREAM_WINDOW: u64 = 1 << 20;
/// Bytes that it may send ahead on all streams: room for all of them, so that slow clients do not hold up the others.
const CONNECTION_WINDOW: u64 = 100 * MAX_STREAM_WINDOW;
/// Unidirectional streams of an upstream: those of HTTP/3 (RFC 9114 §6.2), and some of types that are unknown here.
const UNIDIRECTIONAL_STREAMS: u64 = 8;
/// Bytes by which a header section may be larger than its limit before the connection is closed rather than the stream.
const SECTION_SLACK: u64 = 64 << 10;

/// A connection after its handshake.
pub(in crate::proxy) struct QuicConnection {
    pub(in crate::proxy) client: Http3Client,
    pub(in crate::proxy) socket: QuicSocket,
    pub(in crate::proxy) tickets: Tickets,
}

/// Server of HTTP/3 at any address of a name.
pub(in crate::proxy) struct QuicServer {
    host: Rc<HostName>,
    /// Name to verify and to send.
    name: String,
    context: Arc<TlsContext>,
    congestion: Option<CongestionSettings>,
    /// Largest header section of a response, bytes.
    header_bytes: u64,
    /// Configuration of its connections, from the first one on.
    config: RefCell<Option<Config>>,
    tickets: Tickets,
}

impl std::fmt::Debug for QuicServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuicServer").field("host", &self.host).finish_non_exhaustive()
    }
}

impl QuicServer {
    /// Returns the server of an address, `host:port`.
    pub(super) fn new(
        server: &str,
        host: Rc<HostName>,
        tls: &TlsSettings,
        settings: &UpstreamSettings,
    ) -> QuicServer {
        QuicServer {
            host,
            name: tls::name_of(server, tls),
            context: Arc::clone(&tls.context),
            congestion: settings.congestion.clone(),
            header_bytes: settings.header_bytes,
            config: RefCell::default(),
            tickets: Tickets::default(),
        }
    }

    /// Connects and completes the handshake within `limit`.
    ///
    /// # Errors
    /// Why there is no connection, or why the upstream is not trusted.
    pub(super) async fn connect(&self, limit: Duration) -> Result<QuicConnection, Failure> {
        attempts::first(&self.host, limit, |address| self.handshake(address)).await
    }

    /// Returns a configuration of connections.
    fn config(&self) -> Result<Config, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, name = self.name, "QUIC to an upstream cannot be set up");
            Failure::TlsHandshake
        };
        let tls = self.context.for_quic().map_err(|error: ErrorStack| failed(&error))?;
        let limits = Limits {
            connection: CONNECTION_WINDOW,
            stream: STREAM_WINDOW,
            unidirectional: STREAM_WINDOW,
            unidirectional_streams: UNIDIRECTIONAL_STREAMS,
        };
        let config = sluicegate_quic_client::config(tls, &limits);
        let mut config = config.map_err(|error| failed(&error))?;
        config.set_max_stream_window(MAX_STREAM_WINDOW);
        config.set_max_idle_timeout(u64::try_from(IDLE.as_millis()).unwrap_or(u64::MAX));
        config.set_max_recv_udp_payload_size(65_527);
        config.set_max_send_udp_payload_size(MAX_DATAGRAM);
        config.discover_pmtu(true);
        config.set_disable_active_migration(true);
        config.enable_ecn(true);
        if let Some(congestion) = &self.congestion {
            config.set_cc_factory(congestion.factory());
        }
        Ok(config)
    }

    /// Returns a client at the start of its handshake.
    fn client(&self, local: SocketAddr, peer: SocketAddr) -> Result<Http3Client, Failure> {
        let name = match self.name.parse::<IpAddr>() {
            Ok(ip) => ServerName::Ip(ip),
            Err(_) => ServerName::Dns(&self.name),
        };
        let id = random_id().map_err(|_| Failure::Exhausted)?;
        let mut config = self.config.borrow_mut();
        let config = match &mut *config {
            Some(config) => config,
            unmade => unmade.insert(self.config()?),
        };
        let client = Http3Client::new(config, name, &id, local, peer);
        let mut client = client.map_err(|_| Failure::TlsHandshake)?;
        client.limit_sections(self.header_bytes.saturating_add(SECTION_SLACK));
        if let Some(session) = self.tickets.take() {
            // One that cannot be used costs a round trip of the handshake, no more.
            let _ = client.resume(&session, false);
        }
        Ok(client)
    }

    async fn handshake(&self, peer: SocketAddr) -> Result<QuicConnection, Failure> {
        let mut socket = QuicSocket::open(peer).map_err(|error| Failure::of_connect(&error))?;
        set_time(Instant::now());
        let mut client = self.client(socket.local(), peer)?;
        loop {
            let now = Instant::now();
            set_time(now);
            let moved = socket.receive(&mut client, now);
            client.on_timer(now.into_std());
            let step = client.advance(now.into_std());
            let moved = moved.and_then(|_| socket.flush(&mut client, now));
            if client.closed().is_some() {
                return Err(self.failure(&mut client));
            }
            moved.map_err(|error| Failure::of_connect(&error))?;
            if matches!(step, Some(Step::Established { .. })) {
                let tickets = self.tickets.of_connection();
                return Ok(QuicConnection { client, socket, tickets });
            }
            // A handshake has a timer until its end.
            let timer = socket.deadline(&client, false).unwrap_or(now + IDLE);
            tokio::select! {
                () = socket.readable() => {}
                () = sleep_until(timer) => {}
            }
        }
    }

    /// Returns why a handshake has failed.
    fn failure(&self, client: &mut Http3Client) -> Failure {
        let Some(closed) = client.closed() else {
            return Failure::Closed;
        };
        tracing::debug!(%closed, name = self.name, "a QUIC handshake with an upstream failed");
        match closed.cause {
            // The result of a verification that was not asked for is no cause.
            Cause::Untrusted(_) if self.context.verify => {
                let ssl = client.quic_mut().ssl_mut();
                let refused = ssl.and_then(|ssl| ssl.verify_result().err());
                refused.map_or(Failure::TlsHandshake, tls::of_verification)
            }
            Cause::Untrusted(_) => Failure::TlsHandshake,
            Cause::NoHttp3 | Cause::Unknown => Failure::NoHttp3,
            Cause::Refused => Failure::Refused,
            Cause::Silent => Failure::ConnectTimeout,
            Cause::ByPeer(reason) | Cause::ByClient(reason) if is_alert(&reason) => {
                Failure::TlsHandshake
            }
            Cause::ByPeer(_) => Failure::Closed,
            Cause::ByClient(_) => Failure::NoHttp3,
        }
    }
}

/// Returns whether a connection was closed by an alert of TLS (RFC 9001 §4.8).
fn is_alert(reason: &CloseReason) -> bool {
    !reason.is_http && (0x100..0x200).contains(&reason.code)
}
