//! Certificates and their keys.

use std::path::Path;
use std::sync::Arc;

use boring::error::ErrorStack;
use boring::pkey::PKey;
use boring::sha::Sha256;
use boring::ssl::{SslContextBuilder, SslMethod};
use boring::x509::X509;

use super::compression;
use super::error::TlsError;
use super::options::TlsOptions;
use super::sni::{self, Alternatives};
use super::validity;
use crate::entropy::draw;
use crate::observe::certificates::Certificate;
use crate::secrets::key_file;
use crate::{clock, named_file, self_signed, signing};

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
    pub fn load(certificate: &Path, key: &Path, accept_open: bool) -> Result<Self, TlsError> {
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
    pub fn self_signed() -> Result<Self, TlsError> {
        Self::made(&["localhost", "127.0.0.1", "::1"], SELF_SIGNED)
    }

    /// Makes a certificate for `names` that nobody trusts, until another one has been obtained.
    ///
    /// # Errors
    /// The library could not make one.
    pub fn placeholder(names: &[String]) -> Result<Self, TlsError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Self::made(&names, PLACEHOLDER)
    }

    fn made(names: &[&str], origin: &str) -> Result<Self, TlsError> {
        let (chain, key) = self_signed_pem(names).map_err(|e| TlsError::Tls {
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

    /// Returns what messages and metrics say of the certificate.
    ///
    /// # Errors
    /// The first certificate cannot be read.
    pub fn summary(&self) -> Result<CertificateSummary, TlsError> {
        let read = || -> Result<CertificateSummary, ErrorStack> {
            let leaf = X509::from_pem(&self.chain)?;
            Ok(CertificateSummary {
                name: sni::names(&leaf).into_iter().next().unwrap_or_default(),
                not_before: validity::begin(&leaf)?,
                not_after: validity::end(&leaf)?,
            })
        };
        read().map_err(|e| TlsError::Tls {
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
    pub(super) fn digest(&self) -> [u8; 32] {
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
    pub(super) fn context(&self) -> Result<(Vec<String>, SslContextBuilder), TlsError> {
        let fail =
            |cause: String, remedy| TlsError::Tls { origin: self.origin.clone(), cause, remedy };
        let lost = |e: ErrorStack| fail(e.to_string(), "see the TLS library's words");
        let mut context = SslContextBuilder::new(SslMethod::tls()).map_err(lost)?;
        let chain = X509::stack_from_pem(&self.chain)
            .map_err(|e| fail(format!("not a PEM certificate: {e}"), "give a PEM file"))?;
        compression::add(&mut context, &chain).map_err(lost)?;
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
        signing::apply(&mut context, key);
        // The list of the context that the client's name leads to holds. TLS 1.2 with forward secrecy and authenticated encryption
        // alone, as TLS 1.3 (RFC 9325 §4.2).
        context.set_cipher_list(TLS12_CIPHERS).map_err(lost)?;
        self.options.apply(&mut context).map_err(lost)?;
        Ok((names, context))
    }
}

/// Facts of a certificate for messages and metrics.
pub struct CertificateSummary {
    /// First name that it is for; empty if there is none.
    pub name: String,
    /// Begin of its validity, in seconds since 1970.
    pub not_before: i64,
    /// End of its validity, in seconds since 1970.
    pub not_after: i64,
}

/// A listener's certificates.
pub struct Identities {
    /// Certificate for clients that ask for no name of the others.
    pub first: Identity,
    /// Certificates for other names.
    pub others: Alternatives,
    /// When each certificate expires.
    pub expiries: Vec<Certificate>,
}

impl Identities {
    /// Returns these certificates with the TLS options of others.
    pub fn with_options(&self, other: &Identities) -> Identities {
        Identities {
            first: self.first.with_options(&other.first.options),
            others: self.others.clone(),
            expiries: self.expiries.clone(),
        }
    }

    /// Returns whether these are the same certificates as `other` has.
    pub fn are(&self, other: &Identities) -> bool {
        self.first.chain == other.first.chain && self.others.is(&other.others)
    }
}

fn read(path: &Path, accept_open: bool) -> Result<Vec<u8>, TlsError> {
    let failed = |cause| TlsError::File { path: path.display().to_string(), cause };
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
