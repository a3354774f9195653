//! The issuers whose certificates a client accepts.

use std::path::Path;

use anyhow::{Context as _, ensure};
use boring::ssl::{SslContextBuilder, SslMethod, SslVerifyMode};
use boring::x509::X509;

/// File in which Linux distributions keep all trusted issuers.
const SYSTEM_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Issuers that a client trusts.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Any; certificates are not checked.
    Anyone,
    /// Those that the system trusts.
    System,
    /// Those in this PEM file, and no others.
    Issuers(&'a Path),
}

impl Trust<'_> {
    /// Returns a TLS context with these issuers.
    ///
    /// # Errors
    /// The file of issuers can't be read, or holds none.
    pub fn tls(self) -> anyhow::Result<SslContextBuilder> {
        let mut tls = SslContextBuilder::new(SslMethod::tls())?;
        let checks = !matches!(self, Trust::Anyone);
        tls.set_verify(if checks { SslVerifyMode::PEER } else { SslVerifyMode::NONE });
        match self {
            Trust::Anyone => {}
            Trust::Issuers(file) => add_issuers(&mut tls, file)?,
            Trust::System => {
                tls.set_default_verify_paths()?;
                if Path::new(SYSTEM_BUNDLE).exists() {
                    tls.set_ca_file(SYSTEM_BUNDLE)?;
                }
            }
        }
        Ok(tls)
    }
}

fn add_issuers(tls: &mut SslContextBuilder, file: &Path) -> anyhow::Result<()> {
    let name = file.display();
    let pem = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
    let issuers = X509::stack_from_pem(&pem)
        .with_context(|| format!("{name} is no PEM file of certificates"))?;
    ensure!(!issuers.is_empty(), "{name} holds no certificate in PEM");
    for issuer in issuers {
        tls.cert_store_mut().add_cert(issuer)?;
    }
    Ok(())
}
