//! quiche's configuration of a listener: transport parameters and TLS.

mod error;
mod options;
mod sni;
mod validity;

use std::path::Path;
use std::sync::Arc;

use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::sha::Sha256;
use boring::ssl::{SslContextBuilder, SslMethod, SslMode, SslOptions, SslSessionCacheMode};
use boring::x509::X509;
use sluicegate_config::{Limits, Quic};

pub use error::TransportError;
pub use options::TlsOptions;
use sni::Alternative;
pub use sni::Alternatives;

use super::key_file;
pub use super::key_file::TooOpen;
use super::secrets::Secrets;
use super::tickets;
use crate::entropy::draw;
use crate::{clock, named_file, self_signed};

/// Streams that a client may open to us: control, two for QPACK, and room for reserved types (RFC 9114 §6.2).
const MAX_STREAMS_UNI: u64 = 8;

/// Cipher suites of TLS 1.2, over TCP.
const TLS12_CIPHERS: &str = "ECDHE+AESGCM:ECDHE+CHACHA20";

/// Text in every PEM file of a private key.
const MARK: &[u8] = b"PRIVATE KEY";

/// Origin of an identity that was not read from files.
const SELF_SIGNED: &str = "self-signed certificate";
/// Origin of an identity that stands for one that is still to be obtained.
const PLACEHOLDER: &str = "self-signed certificate, until another one has been obtained";

/// A certificate chain and its key, both PEM.
#[derive(Clone)]
pub struct Identity {
    /// Certificates, PEM, the leaf first.
    pub chain: Vec<u8>,
    /// Key of the leaf, PEM.
    pub key: Vec<u8>,
    /// Names of the files, for messages.
    pub origin: String,
    /// TLS options of its listener.
    pub options: Arc<TlsOptions>,
}

/// Omits the key.
impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Identity").field(&self.origin).finish()
    }
}

impl Identity {
    /// Reads both files. A key that other users have access to is refused unless `accept_open`.
    ///
    /// # Errors
    /// A file that cannot be read, or a key that is refused.
    pub fn load(certificate: &Path, key: &Path, accept_open: bool) -> Result<Self, TransportError> {
        Ok(Self {
            chain: read(certificate, true)?,
            key: read(key, accept_open)?,
            origin: format!("{} with {}", certificate.display(), key.display()),
            options: Arc::default(),
        })
    }

    /// Makes a certificate for localhost that nobody trusts.
    ///
    /// # Errors
    /// The library could not make one.
    pub fn self_signed() -> Result<Self, TransportError> {
        Self::made(&["localhost", "127.0.0.1", "::1"], SELF_SIGNED)
    }

    /// Makes a certificate for `names` that nobody trusts, until another one has been obtained.
    ///
    /// # Errors
    /// The library could not make one.
    pub fn placeholder(names: &[String]) -> Result<Self, TransportError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self::made(&names, PLACEHOLDER)
    }

    fn made(names: &[&str], origin: &str) -> Result<Self, TransportError> {
        let (chain, key) = self_signed_pem(names).map_err(|e| TransportError::Tls {
            origin: origin.into(),
            cause: e.to_string(),
            remedy: "configure a certificate and a key",
        })?;
        Ok(Self { chain, key, origin: origin.into(), options: Arc::default() })
    }

    /// Returns the same certificate with other options.
    #[must_use]
    pub fn with_options(&self, options: &Arc<TlsOptions>) -> Identity {
        Identity { options: Arc::clone(options), ..self.clone() }
    }

    /// Returns the first name that the certificate is for, and begin and end of its validity, in seconds since 1970.
    ///
    /// # Errors
    /// The first certificate cannot be read.
    pub fn validity(&self) -> Result<(String, (i64, i64)), TransportError> {
        let read = || -> Result<(String, (i64, i64)), ErrorStack> {
            let leaf = X509::from_pem(&self.chain)?;
            let name = sni::names(&leaf).into_iter().next().unwrap_or_default();
            Ok((name, (validity::begin(&leaf)?, validity::end(&leaf)?)))
        };
        read().map_err(|e| TransportError::Tls {
            origin: self.origin.clone(),
            cause: format!("not a PEM certificate: {e}"),
            remedy: "give a PEM file",
        })
    }

    /// Returns whether it was made at the start, and not read from files.
    pub fn is_self_signed(&self) -> bool {
        self.origin == SELF_SIGNED
    }

    /// Returns whether it stands for a certificate that is still to be obtained.
    pub fn is_placeholder(&self) -> bool {
        self.origin == PLACEHOLDER
    }

    /// Returns a digest of the chain, the key and the options.
    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        // The lengths keep the end of the one from becoming the beginning of the other.
        for part in [&self.chain, &self.key] {
            digest.update(&part.len().to_be_bytes());
            digest.update(part);
        }
        digest.update(&self.options.digest());
        digest.finish()
    }

    /// Returns a TLS context and the names that its certificate is for.
    fn context(&self) -> Result<(Vec<String>, SslContextBuilder), TransportError> {
        let fail = |cause: String, remedy| TransportError::Tls {
            origin: self.origin.clone(),
            cause,
            remedy,
        };
        let lost = |e: ErrorStack| fail(e.to_string(), "see the TLS library's words");
        let mut context = SslContextBuilder::new(SslMethod::tls()).map_err(lost)?;
        let chain = X509::stack_from_pem(&self.chain)
            .map_err(|e| fail(format!("not a PEM certificate: {e}"), "give a PEM file"))?;
        let mut chain = chain.into_iter();
        let leaf = chain.next().ok_or_else(|| {
            fail("no certificate in the file".into(), "give a PEM file with BEGIN CERTIFICATE")
        })?;
        context.set_certificate(&leaf).map_err(lost)?;
        let names = sni::names(&leaf);
        for intermediate in chain {
            context.add_extra_chain_cert(intermediate).map_err(lost)?;
        }
        let key = PKey::private_key_from_pem(&self.key).map_err(|e| {
            fail(
                format!("not a PEM private key: {e}"),
                "give a PEM file with BEGIN PRIVATE KEY and no passphrase",
            )
        })?;
        let mismatch = |_| {
            fail(
                "the key does not belong to the certificate".into(),
                "give the pair that was issued together",
            )
        };
        context.set_private_key(&key).map_err(mismatch)?;
        context.check_private_key().map_err(mismatch)?;
        // The list of the context that the client's name leads to holds. TLS 1.2 with forward secrecy and authenticated encryption
        // alone, as TLS 1.3 (RFC 9325 §4.2).
        context.set_cipher_list(TLS12_CIPHERS).map_err(lost)?;
        self.options.apply(&mut context).map_err(lost)?;
        Ok((names, context))
    }
}

fn read(path: &Path, accept_open: bool) -> Result<Vec<u8>, TransportError> {
    let failed = |cause| TransportError::File { path: path.display().to_string(), cause };
    let file = named_file::open(path).map_err(failed)?;
    let bytes = named_file::read_open(&file, named_file::PEM).map_err(failed)?;
    // Another file, given by mistake, is not a secret; that it holds no key is the better error.
    let is_key = bytes.windows(MARK.len()).any(|part| part == MARK);
    if is_key && !accept_open {
        key_file::check(path, &file).map_err(failed)??;
    }
    Ok(bytes)
}

/// Makes a certificate and its key.
fn self_signed_pem(names: &[&str]) -> Result<(Vec<u8>, Vec<u8>), ErrorStack> {
    let mut serial = [0; 16];
    draw(&mut serial);
    // A negative number would need one byte more.
    serial[0] &= 0x7f;
    let key = self_signed::key()?;
    let certificate = self_signed::certificate(&key, names, &serial, clock::unix())?;
    Ok((certificate.to_pem()?, key.private_key_to_pem_pkcs8()?))
}

/// Sets whether clients get session tickets, by which keys, and what these are good for.
fn ticketing(
    (listener, secrets): (&str, &Secrets),
    context: &mut SslContextBuilder,
    identity: &Identity,
    quic: &Quic,
    limits: &Limits,
) -> Result<(), TransportError> {
    let lost = |e: ErrorStack| TransportError::Tls {
        origin: identity.origin.clone(),
        cause: e.to_string(),
        remedy: "turn quic.early_data off",
    };
    let limits = (quic.session_tickets && quic.early_data).then_some(limits);
    tickets::bind(context, limits, identity.options.client_digest()).map_err(lost)?;
    if !quic.session_tickets {
        tickets::refuse(context);
        return Ok(());
    }
    tickets::limit(context, quic.session_lifetime);
    // Every certificate's context needs them: boring asks the one that the client's name has led to.
    tickets::set_keys(context, secrets.ticket_keys(), listener);
    if quic.early_data {
        tickets::allow_early_data(context);
    }
    Ok(())
}

/// Makes the TLS contexts of `listener`'s certificates beside the first one. Certificates that `before` has keep their
/// contexts; it was made with the same settings.
///
/// # Errors
/// A certificate or key that cannot be used.
pub fn alternatives(
    (listener, secrets): (&str, &Secrets),
    others: &[Identity],
    quic: &Quic,
    limits: &Limits,
    before: &Alternatives,
) -> Result<Alternatives, TransportError> {
    let known = before.by_digest();
    let contexts = others.iter().map(|other| {
        let digest = other.digest();
        if let Some(known) = known.get(&digest) {
            return Ok(Arc::clone(known));
        }
        let (names, mut context) = other.context()?;
        ticketing((listener, secrets), &mut context, other, quic, limits)?;
        Ok(Arc::new(Alternative::new(digest, names, context)))
    });
    let contexts = contexts.collect::<Result<Vec<_>, TransportError>>()?;
    Ok(before.updated(contexts))
}

/// Makes quiche's configuration for connections of `listener`, without a congestion controller. Clients get the first
/// identity where they ask for a name of none of the others.
///
/// # Errors
/// A certificate or key that cannot be used, or a setting that quiche refuses.
pub fn server_config(
    listener: &str,
    (first, others): (&Identity, &Alternatives),
    quic: &Quic,
    limits: &Limits,
    secrets: &Secrets,
) -> Result<quiche::Config, TransportError> {
    let (names, mut context) = first.context()?;
    ticketing((listener, secrets), &mut context, first, quic, limits)?;
    sni::select(&mut context, names, others);
    let mut config =
        quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, context)?;
    config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL)?;
    let millis = |d: std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    config.set_max_idle_timeout(millis(quic.idle_timeout));
    // With discovery, datagrams begin at 1200 bytes, which every path carries (RFC 9000 §14).
    config.discover_pmtu(quic.path_mtu_discovery);
    config.set_max_recv_udp_payload_size(65_527);
    config.set_initial_rtt(quic.initial_rtt);
    config.set_max_ack_delay(millis(quic.ack_delay));
    config.set_initial_max_data(limits.connection_window);
    config.set_initial_max_stream_data_bidi_remote(limits.stream_window);
    config.set_initial_max_stream_data_bidi_local(limits.stream_window);
    config.set_initial_max_stream_data_uni(limits.stream_window);
    config.set_max_connection_window(limits.connection_window);
    config.set_max_stream_window(limits.stream_window);
    config.set_initial_max_streams_bidi(limits.max_concurrent_streams);
    config.set_initial_max_streams_uni(MAX_STREAMS_UNI);
    config.set_active_connection_id_limit(limits.cids_per_connection);
    config.set_disable_active_migration(!quic.migration);
    config.enable_pacing(true);
    Ok(config)
}

/// Begins the TLS context for connections of `listener` over TCP: the same certificates and ticket keys as over QUIC, without early
/// data.
///
/// # Errors
/// A certificate or key that cannot be used.
pub fn tcp_context(
    listener: &str,
    (first, others): (&Identity, &Alternatives),
    quic: &Quic,
    limits: &Limits,
    secrets: &Secrets,
) -> Result<SslContextBuilder, TransportError> {
    let lost = |e: ErrorStack| TransportError::Tls {
        origin: first.origin.clone(),
        cause: e.to_string(),
        remedy: "see the TLS library's words",
    };
    let (names, mut context) = first.context()?;
    let quic = Quic { early_data: false, ..quic.clone() };
    ticketing((listener, secrets), &mut context, first, &quic, limits)?;
    context.set_min_proto_version(Some(first.options.min_version())).map_err(lost)?;
    context.set_options(SslOptions::NO_RENEGOTIATION | SslOptions::CIPHER_SERVER_PREFERENCE);
    // Tickets resume sessions, if they are on; the cache would resume them by their IDs without.
    context.set_session_cache_mode(SslSessionCacheMode::OFF);
    // hyper writes what is left again from another place, with more behind it.
    context.set_mode(SslMode::ENABLE_PARTIAL_WRITE | SslMode::ACCEPT_MOVING_WRITE_BUFFER);
    sni::select_tcp_protocol(&mut context);
    sni::select(&mut context, names, others);
    Ok(context)
}

#[cfg(test)]
mod tests;
