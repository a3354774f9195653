//! TLS options of a listener, which the contexts of all its certificates share: versions, certificates of clients, key log.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use boring::error::ErrorStack;
use boring::sha::Sha256;
use boring::ssl::{SslContextBuilder, SslVerifyMode, SslVersion};
use boring::x509::store::{X509Store, X509StoreBuilder};
use boring::x509::verify::X509VerifyFlags;
use boring::x509::{X509, X509StoreContext, X509StoreContextRef};
use sluicegate_config::{ClientAuth, Listener, TlsVersion};

use super::error::TlsError;
use super::{tickets, validity};
use crate::named_file;
use crate::secrets::key_file;

/// TLS options of a listener.
#[derive(Default)]
pub struct TlsOptions {
    min_version: TlsVersion,
    authorities: Option<Authorities>,
    key_log: Option<Arc<KeyLog>>,
}

/// Authorities whose certificates clients show.
struct Authorities {
    certificates: Vec<X509>,
    /// A client without a certificate is refused.
    required: bool,
    /// Digest of the above.
    digest: [u8; 32],
}

/// Omits the certificates.
impl std::fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsOptions").finish_non_exhaustive()
    }
}

impl TlsOptions {
    /// Reads the options of a listener with their files. A key log that other users have access to gets no keys unless
    /// `accept_open`.
    ///
    /// # Errors
    /// A file that cannot be read, or holds no certificates; a folder where the key log should be, to which no key could be written.
    pub fn load(listener: &Listener, accept_open: bool) -> Result<Arc<TlsOptions>, TlsError> {
        let required = listener.client_auth != Some(ClientAuth::Optional);
        let authorities = { listener.client_ca.as_deref() }
            .map(|path| Authorities::load(path, required))
            .transpose()?;
        if let Some(path) = listener.key_log.as_deref().filter(|path| path.is_dir()) {
            return Err(TlsError::Tls {
                origin: path.display().to_string(),
                cause: "a folder".into(),
                remedy: "name a file in it, as key_log",
            });
        }
        Ok(Arc::new(TlsOptions {
            min_version: listener.tls_min_version,
            authorities,
            key_log: { listener.key_log.clone() }
                .map(|path| Arc::new(KeyLog::new(path, accept_open))),
        }))
    }

    /// Returns a digest of what contexts take from the options.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(&self.client_digest().unwrap_or_default());
        let path = self.key_log.as_ref().map(|log| log.path.as_os_str());
        digest.update(path.unwrap_or_default().as_encoded_bytes());
        digest.finish()
    }

    /// Returns a digest of the authorities and the demand, to which sessions are bound: a session of another one would spare a client
    /// the check.
    pub(super) fn client_digest(&self) -> Option<[u8; 32]> {
        Some(self.authorities.as_ref()?.digest)
    }

    /// Returns the oldest version over TCP; over QUIC there is no other than TLS 1.3.
    pub(super) fn min_version(&self) -> SslVersion {
        match self.min_version {
            TlsVersion::Tls12 => SslVersion::TLS1_2,
            TlsVersion::Tls13 => SslVersion::TLS1_3,
        }
    }

    /// Has a context demand certificates of clients, and log keys.
    pub(super) fn apply(&self, context: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        if let Some(authorities) = &self.authorities {
            context.set_verify_cert_store(authorities.store()?)?;
            for certificate in &authorities.certificates {
                context.add_client_ca(certificate)?;
            }
            let mut mode = SslVerifyMode::PEER;
            mode.set(SslVerifyMode::FAIL_IF_NO_PEER_CERT, authorities.required);
            context.set_verify_callback(mode, |is_valid, verified| {
                is_valid && limit_session(verified).is_some()
            });
        }
        if let Some(log) = self.key_log.clone() {
            context.set_keylog_callback(move |_, line| log.write(line));
        }
        Ok(())
    }
}

impl Authorities {
    fn load(path: &Path, required: bool) -> Result<Authorities, TlsError> {
        let pem = named_file::read(path, named_file::PEM)
            .map_err(|cause| TlsError::File { path: path.display().to_string(), cause })?;
        let unusable = |cause: String| TlsError::Tls {
            origin: path.display().to_string(),
            cause,
            remedy: "give a PEM file with the certificates of authorities, as client_ca",
        };
        let certificates = X509::stack_from_pem(&pem);
        let certificates =
            certificates.map_err(|e| unusable(format!("not PEM certificates: {e}")))?;
        if certificates.is_empty() {
            return Err(unusable("no certificate in the file".into()));
        }
        let mut digest = Sha256::new();
        digest.update(&[u8::from(required)]);
        digest.update(&pem);
        let authorities = Authorities { certificates, required, digest: digest.finish() };
        authorities.store().map_err(|e| unusable(e.to_string()))?;
        Ok(authorities)
    }

    /// Returns the store against which certificates are verified. An intermediate authority of the file is trusted like a root.
    fn store(&self) -> Result<X509Store, ErrorStack> {
        let mut store = X509StoreBuilder::new()?;
        for certificate in &self.certificates {
            store.add_cert(certificate)?;
        }
        store.try_set_flags(X509VerifyFlags::PARTIAL_CHAIN)?;
        Ok(store.build())
    }
}

/// Ends the session of a handshake with the certificate that was just verified: whoever resumes it shows none again, and the library looks
/// at none.
fn limit_session(verified: &X509StoreContextRef) -> Option<()> {
    let ssl = verified.ex_data(X509StoreContext::ssl_idx().ok()?)?;
    tickets::end_at(ssl, validity::end(verified.current_cert()?).ok()?)
}

/// File to which the keys of connections are written, for programs that decrypt captures of packets.
struct KeyLog {
    path: PathBuf,
    /// The file may be one that other users have access to.
    accept_open: bool,
    /// The file, opened for the first line: a check of the configuration must not create it.
    file: OnceLock<Option<File>>,
}

impl KeyLog {
    fn new(path: PathBuf, accept_open: bool) -> KeyLog {
        KeyLog { path, accept_open, file: OnceLock::new() }
    }

    /// Appends a line. The thread waits for the disk; the log is for debugging.
    fn write(&self, line: &str) {
        let file = self.file.get_or_init(|| match self.open() {
            Ok(file) => Some(file),
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "key_log cannot be opened; check the path and its permissions");
                None
            }
        });
        if let Some(mut file) = file.as_ref() {
            // One write, so that the lines of several threads do not mix. What a full disk drops is dropped.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }

    fn open(&self) -> std::io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(0o600);
        // Of a pipe, the reader is not waited for, and what it has no room for is dropped.
        options.custom_flags(libc::O_NONBLOCK);
        let file = options.open(&self.path)?;
        if !self.accept_open {
            key_file::check(&self.path, &file)?.map_err(std::io::Error::other)?;
        }
        Ok(file)
    }
}
