//! quiche configurations of both ends, with a certificate made in memory.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;
use quiche::h3;
use sluicegate_base::self_signed;
use sluicegate_base::tls;

use super::{Control, SimulationError};
use crate::conventions::{DATAGRAM, IDLE_TIMEOUT};

/// Round-trip time assumed before the first sample, as in the product.
const INITIAL_RTT: Duration = Duration::from_millis(100);

/// Flow control that never limits, bytes.
const WINDOW: u64 = 1 << 30;

const STREAMS: u64 = 100;

/// Creation time of the certificates, since 1970; nobody checks it.
const MADE: Duration = Duration::from_secs(1_700_000_000);

/// Returns the certificate and key of this process, for a listener of the product.
pub(crate) fn identity() -> anyhow::Result<&'static tls::Identity> {
    static IDENTITY: OnceLock<tls::Identity> = OnceLock::new();
    if let Some(identity) = IDENTITY.get() {
        return Ok(identity);
    }
    let shared = Identity::shared()?;
    let folder = tempfile::tempdir()?;
    let (certificate, key) = (folder.path().join("certificate"), folder.path().join("key"));
    fs::write(&certificate, X509::from_der(&shared.certificate)?.to_pem()?)?;
    fs::write(&key, PKey::private_key_from_der(&shared.key)?.private_key_to_pem_pkcs8()?)?;
    let identity = tls::Identity::load(&certificate, &key, true)?;
    Ok(IDENTITY.get_or_init(|| identity))
}

/// A certificate and its key, DER.
#[derive(Clone, Debug)]
struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Identity {
    /// RSA, because its signatures have one length: a handshake then has the same size every time.
    fn generate() -> Result<Self, SimulationError> {
        let key = PKey::from_rsa(Rsa::generate(2048)?)?;
        let certificate = self_signed::certificate(&key, &["localhost"], &[1], MADE)?;
        Ok(Self { certificate: certificate.to_der()?, key: key.private_key_to_der()? })
    }

    /// Returns the certificate and key of this process.
    fn shared() -> Result<&'static Self, SimulationError> {
        static SHARED: OnceLock<Identity> = OnceLock::new();
        if let Some(identity) = SHARED.get() {
            return Ok(identity);
        }
        let identity = Self::generate()?;
        Ok(SHARED.get_or_init(|| identity))
    }
}

pub(super) fn client() -> Result<quiche::Config, SimulationError> {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.verify_peer(false);
    set_transport(&mut config)?;
    Ok(config)
}

pub(crate) fn server(control: Control) -> Result<quiche::Config, SimulationError> {
    let identity = Identity::shared()?;
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    let certificate = X509::from_der(&identity.certificate)?;
    let key = PKey::private_key_from_der(&identity.key)?;
    tls.set_certificate(&certificate)?;
    tls.set_private_key(&key)?;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls)?;
    set_transport(&mut config)?;
    control.attach(&mut config)?;
    Ok(config)
}

fn set_transport(config: &mut quiche::Config) -> Result<(), SimulationError> {
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
