//! Opens the connection for a URL: addresses, trust, handshake.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use sluicegate_quic_client::{Config, Http3Client, Limits, Trust, Url, config, random_id};

use super::connection::ClientConnection;

/// Silence after which the next address is tried.
const TRY_NEXT: Duration = Duration::from_secs(1);
/// Silence after which the attempt at the last address ends.
const TRY_LAST: Duration = Duration::from_secs(10);
/// Silence that ends a connection.
const IDLE_MS: u64 = 30_000;
/// Windows for one request stream, and more unidirectional streams than HTTP/3 needs.
const LIMITS: Limits = Limits {
    connection: 16 << 20,
    stream: 16 << 20,
    unidirectional: 1 << 20,
    unidirectional_streams: 16,
};
/// Size of the largest datagram, bytes; it fits every common path.
const MAX_DATAGRAM: usize = 1350;

/// Returns the addresses of a URL's host, in the order of the system's resolver.
pub(super) fn resolve(url: &Url) -> anyhow::Result<Vec<SocketAddr>> {
    let found = (url.host.as_str(), url.port).to_socket_addrs();
    let found = found.with_context(|| format!("cannot resolve {}", url.host))?;
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() {
        bail!("{} has no address", url.host);
    }
    Ok(addresses)
}

/// Returns the configuration of connections whose server is trusted by these issuers.
///
/// # Errors
/// The file of issuers can't be read.
pub(super) fn client_config(trust: Trust<'_>) -> anyhow::Result<Config> {
    let mut config = config(trust.tls()?, &LIMITS)?;
    config.set_max_idle_timeout(IDLE_MS);
    config.set_max_send_udp_payload_size(MAX_DATAGRAM);
    config.set_disable_active_migration(true);
    Ok(config)
}

/// Tries one address after the other until one completes a handshake or refuses it; only silence and a closed port lead on to the
/// next.
///
/// # Errors
/// The error of the last address tried.
pub(super) fn connect(
    url: &Url,
    addresses: &[SocketAddr],
    config: &mut Config,
    deadline: Instant,
    clock: fn() -> Instant,
    note: &mut impl FnMut(&str),
) -> anyhow::Result<ClientConnection> {
    let mut last = anyhow!("{} has no address", url.host);
    for (i, &peer) in addresses.iter().enumerate() {
        let patience = if i + 1 < addresses.len() { TRY_NEXT } else { TRY_LAST };
        note(&format!("* trying {peer}"));
        let client = ClientConnection::open(peer, clock, |local, peer| {
            Ok(Http3Client::new(config, url.server_name(), &random_id()?, local, peer)?)
        });
        let attempt = client.and_then(|client| handshake(client, patience, deadline));
        match attempt {
            Ok(Handshake::Done(client)) => {
                note(&format!("* connected to {peer} over HTTP/3"));
                return Ok(*client);
            }
            Ok(Handshake::Refused(error)) => return Err(error),
            Ok(Handshake::Silence) => {
                last = anyhow!(
                    "no HTTP/3 response from {peer}; see that a server listens there and that UDP may pass"
                )
            }
            Err(error) => last = error,
        }
        note(&format!("* {last:#}"));
        if clock() >= deadline {
            bail!("time is up: {last:#}");
        }
    }
    Err(last)
}

enum Handshake {
    Done(Box<ClientConnection>),
    Refused(anyhow::Error),
    Silence,
}

fn handshake(
    mut client: ClientConnection,
    patience: Duration,
    deadline: Instant,
) -> anyhow::Result<Handshake> {
    let silence = client.now() + patience;
    loop {
        if client.http.advance(client.now()).is_some() {
            return Ok(Handshake::Done(Box::new(client)));
        }
        if let Some(error) = client.closed() {
            // If this side has closed the connection, the server is sent the reason.
            client.close();
            return Ok(Handshake::Refused(error));
        }
        if client.is_refused() {
            bail!("connection refused by {}: no server listens there", client.peer);
        }
        if !client.has_received() && client.now() >= silence.min(deadline) {
            return Ok(Handshake::Silence);
        }
        if client.now() >= deadline {
            return Ok(Handshake::Refused(anyhow!("time is up during the handshake")));
        }
        let limit = if client.has_received() { deadline } else { silence.min(deadline) };
        client.turn(limit)?;
    }
}
