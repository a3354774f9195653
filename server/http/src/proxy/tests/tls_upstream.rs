//! Upstream with TLS, and its certificates, for tests.

use std::path::PathBuf;
use std::time::SystemTime;

use boring::pkey::{PKey, Private};
use boring::ssl::{SslAcceptor, SslMethod};
use boring::x509::X509;
use sluicegate_base::self_signed;
use sluicegate_config::UpstreamTls;
use tempfile::TempDir;
use tokio_boring::{HandshakeError, SslStream};

use super::*;

/// Returns settings without any key.
pub(super) fn unset() -> UpstreamTls {
    proxy_to(Vec::new()).pool.pool().settings.tls.clone()
}

pub(super) fn proxy_with(upstreams: Vec<UpstreamAddress>, tls: UpstreamTls) -> Proxy {
    with(proxy_to(upstreams), |pool| pool.tls = tls)
}

/// Certificate that vouches for itself, its key, and the files of both.
pub(super) struct Certified {
    key: PKey<Private>,
    pub(super) certificate: X509,
    pub(super) folder: TempDir,
}

impl Certified {
    /// Returns a certificate for `name` that expired so many days ago, or is valid.
    pub(super) fn new(name: &str, expired_days: Option<u64>) -> Certified {
        let day = Duration::from_secs(86_400);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let from = match expired_days {
            Some(days) => now - day * 3650 - day * u32::try_from(days).unwrap(),
            None => now,
        };
        let key = self_signed::key().unwrap();
        let certificate = self_signed::certificate(&key, &[name], &[1], from).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cert.pem"), certificate.to_pem().unwrap()).unwrap();
        let pem = key.private_key_to_pem_pkcs8().unwrap();
        std::fs::write(folder.path().join("key.pem"), pem).unwrap();
        Certified { key, certificate, folder }
    }

    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.path().join(name))
    }

    /// Returns settings by which this certificate is trusted.
    pub(super) fn trusted(&self) -> UpstreamTls {
        UpstreamTls { tls_ca: self.file("cert.pem"), ..unset() }
    }

    pub(super) fn acceptor(&self) -> boring::ssl::SslAcceptorBuilder {
        let mut acceptor = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
        acceptor.set_certificate(&self.certificate).unwrap();
        acceptor.set_private_key(&self.key).unwrap();
        acceptor.set_alpn_select_callback(|_, offered| {
            boring::ssl::select_next_proto(b"\x08http/1.1", offered)
                .ok_or(boring::ssl::AlpnError::NOACK)
        });
        acceptor
    }
}

/// Upstream that speaks TLS and does what the test says.
pub(super) struct TlsUpstream {
    pub(super) server: Server,
    acceptor: SslAcceptor,
}

impl TlsUpstream {
    pub(super) async fn new(certified: &Certified) -> TlsUpstream {
        TlsUpstream::with(certified.acceptor()).await
    }

    pub(super) async fn with(acceptor: boring::ssl::SslAcceptorBuilder) -> TlsUpstream {
        TlsUpstream { server: Server::new().await, acceptor: acceptor.build() }
    }

    pub(super) fn address(&self) -> UpstreamAddress {
        UpstreamAddress::Tls(self.server.address().to_string())
    }

    pub(super) fn proxy(&self, tls: UpstreamTls) -> Proxy {
        proxy_with(vec![self.address()], tls)
    }

    pub(super) async fn accept(&self) -> Result<TlsConn, HandshakeError<TcpStream>> {
        let stream = self.server.0.accept().await.unwrap().0;
        tokio_boring::accept(&self.acceptor, stream).await.map(TlsConn)
    }
}

/// Upstream's end of a TLS connection.
pub(super) struct TlsConn(pub(super) SslStream<TcpStream>);

impl TlsConn {
    pub(super) async fn head(&mut self) -> String {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            text.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(text).unwrap()
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
        self.0.flush().await.unwrap();
    }
}
