//! Responses to an authority's challenges, from files that any instance may have written.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boring::error::ErrorStack;
use boring::sha::sha256;
use boring::ssl::{
    AlpnError, BoxSelectCertFinish, ClientHello, ExtensionType, NameType, SslContext,
    SslContextBuilder, SslMethod, SslVerifyMode, select_next_proto,
};

use sluicegate_base::{clock, self_signed};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::keys;

/// Protocol name of TLS-ALPN-01 (RFC 8737 §4).
pub const PROTOCOL: &[u8] = b"acme-tls/1";
/// The same as ALPN writes it: a length and the name.
const ALPN: &[u8] = b"\x0aacme-tls/1";
/// Path in front of a token (RFC 8555 §8.3).
const PATH: &str = "/.well-known/acme-challenge/";
/// Longest token.
const MAX_TOKEN: usize = 128;
/// Longest host name.
const MAX_NAME: usize = 253;

/// Files that are read at a time; other clients wait. Anybody may ask.
const READS: usize = 8;

/// Responses to challenges. Anybody may ask, so each costs at most one small file. The folder may be one of the network, so files are read
/// on threads for blocking work.
#[derive(Clone, Debug)]
pub struct Challenges {
    folder: PathBuf,
    reads: Arc<Semaphore>,
}

impl Challenges {
    /// Reads responses from this folder.
    pub(super) fn new(folder: PathBuf) -> Challenges {
        Challenges { folder, reads: Arc::new(Semaphore::new(READS)) }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the response to a request for `path`, if it belongs to a challenge that is open (RFC 8555 §8.3).
    pub async fn http_01(&self, path: &str) -> Option<String> {
        let file = http_01_file(path.strip_prefix(PATH)?)?;
        self.read(file, Some).await
    }

    /// Lets a context for connections over TCP respond to TLS-ALPN-01 (RFC 8737): a client that offers [`PROTOCOL`] gets a certificate
    /// made for the challenge, if one for its name is open. Such a connection is closed after the handshake.
    pub fn answer_tls_alpn_01(self, context: &mut SslContextBuilder) {
        context.set_async_select_certificate_callback(move |hello| {
            let asked = is_challenge(hello).then(|| hello.servername(NameType::HOST_NAME));
            let name = asked.flatten().map(str::to_ascii_lowercase);
            let challenges = self.clone();
            Ok(Box::pin(async move {
                let proof = match name {
                    Some(name) => challenges.tls_alpn_01(name).await,
                    None => None,
                };
                let finish: BoxSelectCertFinish = Box::new(move |mut hello| {
                    if let Some(context) = proof {
                        // If it fails there is no protocol in common, and the handshake fails, too.
                        let _ = hello.ssl_mut().set_ssl_context(&context);
                        // An authority shows no certificate of its own, and gets nothing but the proof.
                        hello.ssl_mut().set_verify(SslVerifyMode::NONE);
                    }
                    Ok(())
                });
                Ok(finish)
            }))
        });
    }

    async fn tls_alpn_01(&self, name: String) -> Option<SslContext> {
        let file = tls_alpn_01_file(&name)?;
        let make = move |authorization: String| context(&name, &authorization).ok();
        self.read(file, make).await
    }

    /// Returns what `make` makes of the contents of a file; `None` if there is no such file.
    async fn read<T: Send + 'static>(
        &self,
        file: String,
        make: impl FnOnce(String) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        // Nobody closes the semaphore.
        let _permit = self.reads.acquire().await.ok()?;
        let path = self.folder.join(file);
        let read = spawn_blocking(move || make(fs::read_to_string(path).ok()?));
        read.await.ok()?
    }
}

/// Returns whether a client offers the protocol of challenges, and no other one (RFC 8737 §3).
fn is_challenge(hello: &ClientHello<'_>) -> bool {
    let extension = ExtensionType::APPLICATION_LAYER_PROTOCOL_NEGOTIATION;
    let offered = hello.get_extension(extension);
    // The list of protocols stands behind its length, two bytes.
    offered.is_some_and(|list| list.get(2..) == Some(ALPN))
}

/// Returns the name of the file with the response to HTTP-01; `None` if that is no token.
pub(super) fn http_01_file(token: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_token = (1..=MAX_TOKEN).contains(&token.len()) && token.bytes().all(plain);
    is_token.then(|| format!("http-01.{token}"))
}

/// Returns the name of the file with the key authorization of TLS-ALPN-01; `None` if that is no host name.
pub(super) fn tls_alpn_01_file(name: &str) -> Option<String> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    let is_name = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(plain);
    is_name.then(|| format!("tls-alpn-01.{name}"))
}

fn context(name: &str, authorization: &str) -> Result<SslContext, ErrorStack> {
    let key = self_signed::key()?;
    let digest = sha256(authorization.as_bytes());
    let certificate = keys::proof(&key, name, &digest, clock::unix())?;
    let mut context = SslContextBuilder::new(SslMethod::tls())?;
    context.set_certificate(&certificate)?;
    context.set_private_key(&key)?;
    context.set_alpn_select_callback(|_, offered| {
        select_next_proto(ALPN, offered).ok_or(AlpnError::ALERT_FATAL)
    });
    // Without one, the library would ask the context that the handshake began with.
    context.set_servername_callback(|_, _| Ok(()));
    Ok(context.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn responses_are_found_by_token_and_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let challenges = Challenges::new(folder.path().to_owned());
        let path = format!("{PATH}a_Token-1");
        assert_eq!(challenges.http_01(&path).await, None);
        fs::write(folder.path().join("http-01.a_Token-1"), "a_Token-1.key").unwrap();
        fs::write(folder.path().join("tls-alpn-01.a.example"), "token.key").unwrap();
        let found = challenges.http_01(&path).await;
        assert_eq!(found.as_deref(), Some("a_Token-1.key"));
        assert_eq!(challenges.http_01("/a_Token-1").await, None);
        let proof = |name: &str| challenges.tls_alpn_01(name.to_owned());
        assert!(proof("a.example").await.is_some());
        assert!(proof("b.example").await.is_none());
    }

    #[test]
    fn nothing_but_tokens_and_names_reaches_the_file_system() {
        let long = "a".repeat(MAX_TOKEN + 1);
        for token in ["", ".", "../account", "a/b", "a.b", "a%2f", "a b", "\u{e4}", &long] {
            assert_eq!(http_01_file(token), None, "{token}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", "a/b", "../a", "a b", "*.a", "\u{e4}.example", &long] {
            assert_eq!(tls_alpn_01_file(name), None, "{name}");
        }
    }
}
