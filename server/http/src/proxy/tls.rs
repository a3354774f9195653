//! TLS of a pool's upstreams, as the site compiles it: trusted authorities, and this server's own certificate.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use boring::error::ErrorStack;
use boring::pkey::{PKey, Private};
use boring::sha::Sha256;
use boring::ssl::{SslConnector, SslContextBuilder, SslMethod, SslVerifyMode, SslVersion};
use boring::x509::X509;
use boring::x509::store::X509StoreBuilder;
use sluicegate_base::named_file;
use sluicegate_config::UpstreamTls;
use thiserror::Error;

use super::transport::sessions;

/// Protocols that are offered by ALPN (RFC 7301 §3.1), with HTTP/2.
const ALPN_HTTP2: &[u8] = b"\x02h2\x08http/1.1";
/// Protocols that are offered by ALPN, without HTTP/2.
pub(super) const ALPN_HTTP1: &[u8] = b"\x08http/1.1";

/// TLS settings of a pool's upstreams.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TlsSettings {
    /// Name to verify and to send; `None` for the host of the upstream's address.
    pub(super) name: Option<String>,
    pub(super) context: Arc<TlsContext>,
}

/// Context of TLS connections to upstreams. Two of them are equal if they were made of the same settings and the same
/// contents of files.
pub(crate) struct TlsContext {
    digest: [u8; 32],
    pub(super) verify: bool,
    /// Whether HTTP/2 is offered.
    pub(super) http2: bool,
    pub(super) connector: SslConnector,
    credentials: Credentials,
}

/// Certificates of both sides.
struct Credentials {
    /// Certificates of the trusted authorities; `None` if upstreams are not verified.
    authorities: Option<Vec<X509>>,
    /// This server's certificate chain and key.
    identity: Option<(Vec<X509>, PKey<Private>)>,
}

impl Credentials {
    fn give_to(&self, context: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let mut store = X509StoreBuilder::new()?;
        for certificate in self.authorities.iter().flatten() {
            store.add_cert(certificate)?;
        }
        context.set_cert_store_builder(store);
        let verifies = self.authorities.is_some();
        context.set_verify(if verifies { SslVerifyMode::PEER } else { SslVerifyMode::NONE });
        if let Some((chain, key)) = &self.identity {
            let mut chain = chain.iter();
            if let Some(leaf) = chain.next() {
                context.set_certificate(leaf)?;
            }
            for intermediate in chain {
                context.add_extra_chain_cert(intermediate.clone())?;
            }
            context.set_private_key(key)?;
        }
        Ok(())
    }
}

impl TlsContext {
    /// Returns a context of the same settings for connections of QUIC, whose own are not set.
    ///
    /// # Errors
    /// The TLS library failed.
    pub(super) fn for_quic(&self) -> Result<SslContextBuilder, ErrorStack> {
        let mut context = SslContextBuilder::new(SslMethod::tls())?;
        self.credentials.give_to(&mut context)?;
        Ok(context)
    }
}

/// Error in the TLS settings of upstreams.
#[derive(Debug, Error)]
pub enum UpstreamTlsError {
    /// A file cannot be read.
    #[error(
        "cannot read {key} {}: {cause}; correct the path, or make the file readable for the server's user",
        file.display()
    )]
    File {
        /// Key that names the file.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// A file does not hold what its key asks for.
    #[error("{key} {}: {cause}; {remedy}", file.display())]
    Content {
        /// Key that names the file.
        key: &'static str,
        /// Path of the file.
        file: PathBuf,
        /// Description of the problem.
        cause: String,
        /// Advice to the operator.
        remedy: &'static str,
    },
    /// The host's own file of trusted authorities cannot be used.
    #[error(
        "cannot use the trusted authorities of this host in {}: {cause}; correct the file, which $SSL_CERT_FILE may \
         name, or set tls_ca",
        file.display()
    )]
    Host {
        /// Path of the file.
        file: PathBuf,
        /// Description of the problem.
        cause: String,
    },
    /// The host has no file of trusted authorities.
    #[error(
        "this host has no file of trusted authorities to verify upstreams by; install the package ca-certificates, or \
         set tls_ca"
    )]
    NoAuthorities,
    /// The TLS library failed.
    #[error("the TLS library failed: {0}")]
    Library(#[from] ErrorStack),
    /// This build has no such algorithm for connections over QUIC.
    #[error(
        "unknown congestion control algorithm `{0}`; `sluicegate cc` lists those of this build"
    )]
    UnknownAlgorithm(String),
}

impl UpstreamTlsError {
    /// Returns the key of the proxy that names what is wrong.
    pub fn key(&self) -> &'static str {
        match self {
            UpstreamTlsError::File { key, .. } | UpstreamTlsError::Content { key, .. } => key,
            UpstreamTlsError::UnknownAlgorithm(_) => "congestion_control",
            UpstreamTlsError::Host { .. }
            | UpstreamTlsError::NoAuthorities
            | UpstreamTlsError::Library(_) => "upstreams",
        }
    }
}

impl std::fmt::Debug for TlsContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsContext")
    }
}

impl PartialEq for TlsContext {
    fn eq(&self, other: &TlsContext) -> bool {
        self.digest == other.digest
    }
}

impl Eq for TlsContext {}

impl PartialOrd for TlsContext {
    fn partial_cmp(&self, other: &TlsContext) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TlsContext {
    fn cmp(&self, other: &TlsContext) -> Ordering {
        self.digest.cmp(&other.digest)
    }
}

/// Contexts of a site, each made once. Files are read once, so all pools with the same settings have the same context.
#[derive(Debug, Default)]
pub(super) struct TlsContexts {
    /// Contexts by the contents of their files.
    by_digest: BTreeMap<[u8; 32], Arc<TlsContext>>,
    /// Contexts by their settings, without a name.
    by_settings: BTreeMap<UpstreamTls, Arc<TlsContext>>,
}

impl TlsContexts {
    /// Returns the settings for a pool, with a context that pools with the same files share.
    ///
    /// # Errors
    /// A file that the settings name cannot be used, or this host names no trusted authority.
    pub(super) fn settings(&mut self, tls: &UpstreamTls) -> Result<TlsSettings, UpstreamTlsError> {
        let mut settings = tls.clone();
        let name = settings.tls_name.take();
        let context = match self.by_settings.get(&settings) {
            Some(context) => Arc::clone(context),
            None => {
                let context = self.context(&Files::read(&settings)?)?;
                self.by_settings.insert(settings, Arc::clone(&context));
                context
            }
        };
        Ok(TlsSettings { name, context })
    }

    fn context(&mut self, files: &Files) -> Result<Arc<TlsContext>, UpstreamTlsError> {
        let digest = files.digest();
        if let Some(context) = self.by_digest.get(&digest) {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(files.context(digest)?);
        self.by_digest.insert(digest, Arc::clone(&context));
        Ok(context)
    }
}

/// File that a key names, or the host's own.
struct Source {
    /// Key; `None` for the host's file of trusted authorities.
    key: Option<&'static str>,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Source {
    fn read(key: Option<&'static str>, path: PathBuf) -> Result<Source, UpstreamTlsError> {
        match (named_file::read(&path, named_file::PEM), key) {
            (Ok(bytes), _) => Ok(Source { key, path, bytes }),
            (Err(cause), Some(key)) => Err(UpstreamTlsError::File { key, file: path, cause }),
            (Err(cause), None) => {
                Err(UpstreamTlsError::Host { file: path, cause: cause.to_string() })
            }
        }
    }

    fn refused(&self, cause: impl ToString, remedy: &'static str) -> UpstreamTlsError {
        let (file, cause) = (self.path.clone(), cause.to_string());
        match self.key {
            Some(key) => UpstreamTlsError::Content { key, file, cause, remedy },
            None => UpstreamTlsError::Host { file, cause },
        }
    }

    /// Returns the certificates, one at least.
    fn certificates(&self) -> Result<Vec<X509>, UpstreamTlsError> {
        let remedy = "give a PEM file with BEGIN CERTIFICATE";
        let certificates =
            X509::stack_from_pem(&self.bytes).map_err(|error| self.refused(error, remedy))?;
        if certificates.is_empty() {
            return Err(self.refused("no certificate in the file", remedy));
        }
        Ok(certificates)
    }
}

/// Files and options of a pool's settings.
struct Files {
    /// Trusted authorities; `None` if certificates are not verified.
    authorities: Option<Source>,
    /// This server's certificate chain and key.
    identity: Option<(Source, Source)>,
    /// Whether HTTP/2 is offered.
    http2: bool,
}

impl Files {
    fn read(tls: &UpstreamTls) -> Result<Files, UpstreamTlsError> {
        let authorities = if tls.tls_verify {
            Some(match &tls.tls_ca {
                Some(path) => Source::read(Some("tls_ca"), path.clone())?,
                None => {
                    let file = openssl_probe::probe().cert_file;
                    Source::read(None, file.ok_or(UpstreamTlsError::NoAuthorities)?)?
                }
            })
        } else {
            None
        };
        let identity = match (&tls.tls_certificate, &tls.tls_key) {
            (Some(certificate), Some(key)) => Some((
                Source::read(Some("tls_certificate"), certificate.clone())?,
                Source::read(Some("tls_key"), key.clone())?,
            )),
            _ => None,
        };
        Ok(Files { authorities, identity, http2: tls.http2 })
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(&[u8::from(self.http2)]);
        let identity = self.identity.as_ref();
        let parts = [
            self.authorities.as_ref(),
            identity.map(|(certificate, _)| certificate),
            identity.map(|(_, key)| key),
        ];
        for part in parts {
            digest.update(&[u8::from(part.is_some())]);
            let bytes = part.map_or(&[][..], |file| &file.bytes);
            // The lengths keep the end of the one from becoming the beginning of the other.
            digest.update(&bytes.len().to_be_bytes());
            digest.update(bytes);
        }
        digest.finish()
    }

    fn context(&self, digest: [u8; 32]) -> Result<TlsContext, UpstreamTlsError> {
        let mut builder = SslConnector::builder(SslMethod::tls())?;
        builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
        builder.set_alpn_protos(if self.http2 { ALPN_HTTP2 } else { ALPN_HTTP1 })?;
        let identity = self.identity.as_ref();
        let credentials = Credentials {
            authorities: self.authorities.as_ref().map(Source::certificates).transpose()?,
            identity: identity.map(|(chain, key)| identity_of(chain, key)).transpose()?,
        };
        credentials.give_to(&mut builder)?;
        sessions::keep_sessions(&mut builder);
        Ok(TlsContext {
            digest,
            verify: self.authorities.is_some(),
            http2: self.http2,
            connector: builder.build(),
            credentials,
        })
    }
}

/// Returns this server's certificate chain and key.
fn identity_of(
    certificate: &Source,
    key: &Source,
) -> Result<(Vec<X509>, PKey<Private>), UpstreamTlsError> {
    let chain = certificate.certificates()?;
    let private = PKey::private_key_from_pem(&key.bytes).map_err(|error| {
        let remedy = "give a PEM file with BEGIN PRIVATE KEY and no passphrase";
        key.refused(error, remedy)
    })?;
    let mut belongs = false;
    if let Some(leaf) = chain.first() {
        belongs = leaf.public_key()?.public_eq(&private);
    }
    if !belongs {
        let cause = "the key does not belong to tls_certificate";
        return Err(key.refused(cause, "give the pair that was issued together"));
    }
    Ok((chain, private))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn host_s_own_authorities_that_cannot_be_used_are_no_file_of_a_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.pem");
        let missing = Source::read(None, path.clone()).err().unwrap();
        fs::write(&path, "none").unwrap();
        let empty = Source::read(None, path).unwrap();
        for error in [missing, empty.certificates().unwrap_err()] {
            assert_eq!(error.key(), "upstreams");
            let text = error.to_string();
            assert!(text.contains("authorities of this host"), "{text}");
            assert!(text.contains("host.pem: "), "{text}");
        }
    }
}
