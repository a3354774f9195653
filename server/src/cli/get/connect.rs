//! Opens the connection for a URL: addresses, trust, handshake.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use boring::ssl::{SslContextBuilder, SslMethod, SslVerifyMode};
use boring::x509::X509;

use super::closed::closed;
use super::connection::ClientConnection;
use sluicegate_quic_client::Url;

/// Silence after which the next address is tried.
const TRY_NEXT: Duration = Duration::from_secs(1);
/// Silence after which the attempt at the last address ends.
const TRY_LAST: Duration = Duration::from_secs(10);
/// Silence that ends a connection.
const IDLE_MS: u64 = 30_000;
/// Receive window of the connection and of its one request stream, bytes.
const WINDOW: u64 = 16 << 20;
/// Number of unidirectional streams: the control stream, QPACK's, and some to spare (RFC 9114 §6.2).
const UNI_STREAMS: u64 = 16;
const UNI_WINDOW: u64 = 1 << 20;
/// Size of the largest datagram, bytes; it fits every common path.
const MAX_DATAGRAM: usize = 1350;
/// File in which Linux distributions keep all trusted issuers.
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

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

/// Returns quiche's configuration: trusted issuers, and flow control windows.
///
/// # Errors
/// The file of issuers can't be read.
pub(super) fn client_config(
    insecure: bool,
    issuers: Option<&Path>,
) -> anyhow::Result<quiche::Config> {
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    if insecure {
        tls.set_verify(SslVerifyMode::NONE);
    } else {
        tls.set_verify(SslVerifyMode::PEER);
        match issuers {
            Some(file) => trust(&mut tls, file)?,
            None => {
                tls.set_default_verify_paths()?;
                if Path::new(SYSTEM_BUNDLE).exists() {
                    tls.set_ca_file(SYSTEM_BUNDLE)?;
                }
            }
        }
    }
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL)?;
    config.set_max_idle_timeout(IDLE_MS);
    config.set_max_send_udp_payload_size(MAX_DATAGRAM);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_uni(UNI_WINDOW);
    config.set_initial_max_streams_uni(UNI_STREAMS);
    config.set_max_connection_window(WINDOW);
    config.set_max_stream_window(WINDOW);
    config.set_disable_active_migration(true);
    Ok(config)
}

/// Trusts the certificates in `file`, and no other.
fn trust(tls: &mut SslContextBuilder, file: &Path) -> anyhow::Result<()> {
    let pem = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let issuers = X509::stack_from_pem(&pem)
        .with_context(|| format!("{} is no PEM file of certificates", file.display()))?;
    if issuers.is_empty() {
        bail!("{} holds no certificate in PEM", file.display());
    }
    for issuer in issuers {
        tls.cert_store_mut().add_cert(issuer)?;
    }
    Ok(())
}

/// Tries one address after the other until one completes a handshake or refuses it; only silence and a closed port lead on to the
/// next.
///
/// # Errors
/// The error of the last address tried.
pub(super) fn connect(
    url: &Url,
    addresses: &[SocketAddr],
    config: &mut quiche::Config,
    deadline: Instant,
    clock: fn() -> Instant,
    note: &mut impl FnMut(&str),
) -> anyhow::Result<ClientConnection> {
    let mut last = anyhow!("{} has no address", url.host);
    for (i, &peer) in addresses.iter().enumerate() {
        let patience = if i + 1 < addresses.len() { TRY_NEXT } else { TRY_LAST };
        note(&format!("* trying {peer}"));
        let client = ClientConnection::open(peer, clock, |own, peer| start(url, config, own, peer));
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

fn start(
    url: &Url,
    config: &mut quiche::Config,
    own: SocketAddr,
    peer: SocketAddr,
) -> anyhow::Result<quiche::Connection> {
    let mut id = [0; 8];
    boring::rand::rand_bytes(&mut id)?;
    let id = quiche::ConnectionId::from_ref(&id);
    // An address is no server name (RFC 6066 §3), and is looked for elsewhere in the certificate.
    let ip = url.ip();
    let name = ip.is_none().then_some(url.host.as_str());
    let mut connection = quiche::connect(name, &id, own, peer, config)?;
    if let Some(ip) = ip {
        connection.as_mut().param_mut().set_ip(ip)?;
    }
    Ok(connection)
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
        if client.connection.is_established() {
            return Ok(Handshake::Done(Box::new(client)));
        }
        if client.connection.is_closed() || client.connection.is_draining() {
            return Ok(Handshake::Refused(closed(&mut client)));
        }
        if client.connection.local_error().is_some() {
            let error = closed(&mut client);
            // This turn sends the peer the reason.
            client.turn(client.now())?;
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
