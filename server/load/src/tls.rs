//! TLS of a client, and lines about the handshake as h2load writes them when it is built with BoringSSL.

use anyhow::Context as _;
use boring::nid::Nid;
use boring::pkey::Id;
use boring::ssl::{SslContextBuilder, SslMethod, SslRef, SslVerifyMode};

use crate::options::LoadArgs;

/// Returns a context with the options' issuers and groups.
///
/// # Errors
/// There is no such group, or the file of issuers cannot be used.
pub(crate) fn context(options: &LoadArgs) -> anyhow::Result<SslContextBuilder> {
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    tls.set_verify(SslVerifyMode::NONE);
    if let Some(file) = options.cacert.as_deref() {
        tls.set_verify(SslVerifyMode::PEER);
        tls.set_ca_file(file)
            .with_context(|| format!("cannot use the issuers in {}", file.display()))?;
    }
    if let Some(groups) = &options.groups {
        tls.set_curves_list(groups)
            .with_context(|| format!("--groups {groups}: unknown to BoringSSL"))?;
    }
    Ok(tls)
}

/// Returns the lines about a connection whose handshake is complete.
pub(crate) fn lines(ssl: &SslRef) -> Vec<String> {
    let cipher = ssl.current_cipher().map_or("", |cipher| cipher.name());
    let group = ssl.curve_name().unwrap_or_default();
    let resumption = if ssl.session_reused() { "yes" } else { "no" };
    let mut lines =
        vec![format!("TLS Protocol: {}", ssl.version_str()), format!("Cipher: {cipher}")];
    lines.extend(certificate(ssl));
    lines.push(format!("Negotiated Group: {group}"));
    lines.push(format!("Resumption: {resumption}"));
    lines
}

fn certificate(ssl: &SslRef) -> Option<String> {
    let key = ssl.peer_certificate()?.public_key().ok()?;
    let bits = key.bits();
    let kind = match key.id() {
        Id::RSA => "RSA".to_owned(),
        Id::EC => {
            let curve = key.ec_key().ok()?.group().curve_name()?;
            let name = match curve {
                Nid::X9_62_PRIME256V1 => "P-256",
                Nid::SECP384R1 => "P-384",
                Nid::SECP521R1 => "P-521",
                other => other.short_name().unwrap_or_default(),
            };
            format!("ECDSA {name}")
        }
        _ => "<unknown>".to_owned(),
    };
    Some(format!("Certificate: {kind} {bits} bits"))
}
