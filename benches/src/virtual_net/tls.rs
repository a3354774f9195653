//! quiche's configuration of the bare sender and its client, with a certificate made in memory.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;
use quiche::h3;
use sluicegate_base::self_signed;
use sluicegate_base::tls::Identity;

use super::{Control, SimulationError};
use crate::conventions::{DATAGRAM, IDLE_TIMEOUT};

/// Round-trip time assumed before the first sample, as in the product.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Flow control that never limits, bytes.
pub(super) const WINDOW: u64 = 1 << 30;

const STREAMS: u64 = 100;

/// Creation time of the certificates, since 1970; nobody checks it.
const MADE: Duration = Duration::from_secs(1_700_000_000);

/// Names of a large certificate, and the length of each, bytes: together more than three of a client's first datagrams.
const NAMES: (usize, usize) = (200, 50);

/// Returns the certificate and key of this process. It is RSA, because its signatures have one length: a handshake then has the same
/// size every time.
pub(super) fn identity() -> Result<&'static Identity, SimulationError> {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    once(&IDENTITY, &["localhost"])
}

/// Returns one whose certificate has many names, so that a client gets only a part of it before it has proved its address.
pub(super) fn large_identity() -> Result<&'static Identity, SimulationError> {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    let (count, length) = NAMES;
    let names: Vec<String> = (0..count).map(|number| format!("{number:0length$}")).collect();
    let names = names.iter().map(String::as_str).chain(["localhost"]);
    once(&IDENTITY, &names.collect::<Vec<_>>())
}

fn once(
    place: &'static OnceLock<Identity>,
    names: &[&str],
) -> Result<&'static Identity, SimulationError> {
    if let Some(identity) = place.get() {
        return Ok(identity);
    }
    let key = PKey::from_rsa(Rsa::generate(2048)?)?;
    let certificate = self_signed::certificate(&key, names, &[1], MADE)?;
    let identity = Identity {
        chain: certificate.to_pem()?,
        key: key.private_key_to_pem_pkcs8()?,
        origin: "made in memory".to_owned(),
        options: Arc::default(),
    };
    Ok(place.get_or_init(|| identity))
}

/// Returns the configuration of a bare sender.
pub(crate) fn server(control: Control) -> Result<quiche::Config, SimulationError> {
    let identity = identity()?;
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    tls.set_certificate(&*X509::from_pem(&identity.chain)?)?;
    tls.set_private_key(&*PKey::private_key_from_pem(&identity.key)?)?;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    set_transport(&mut config)?;
    control.attach(&mut config)?;
    Ok(config)
}

/// Sets what both ends of a bare connection have.
pub(super) fn set_transport(config: &mut quiche::Config) -> Result<(), SimulationError> {
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    // Grease has random lengths, which would make each run a little different.
    config.grease(false);
    config.set_max_idle_timeout(IDLE_TIMEOUT.as_secs() * 1_000);
    let datagram = usize::try_from(DATAGRAM).unwrap_or(usize::MAX);
    config.set_max_recv_udp_payload_size(datagram);
    config.set_max_send_udp_payload_size(datagram);
    config.set_initial_rtt(INITIAL_RTT);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_bidi_local(WINDOW);
    config.set_initial_max_stream_data_bidi_remote(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_max_streams_bidi(STREAMS);
    config.set_initial_max_streams_uni(STREAMS);
    Ok(())
}
