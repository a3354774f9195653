//! TLS of the client: rustls with ring, which trusts anybody.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::quic::{ClientConnection, Keys, Version};
use rustls::{ClientConfig, DigitallySignedStruct, Error, Side, SignatureScheme};

/// Settings of TLS and the session tickets received under them. Clones share the tickets.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    /// Name that the client asks for.
    name: ServerName<'static>,
}

impl Default for Tls {
    fn default() -> Tls {
        Tls::new("localhost", b"h3")
    }
}

impl Tls {
    /// Returns settings of a client that asks for `name` and speaks `protocol`, without tickets.
    #[must_use]
    pub fn new(name: &str, protocol: &[u8]) -> Tls {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("ring has TLS 1.3");
        let mut config = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.enable_early_data = true;
        let name = ServerName::try_from(name.to_owned()).expect("a host name");
        Tls { config: Arc::new(config), name }
    }

    pub(crate) fn connect(&self, parameters: Vec<u8>) -> ClientConnection {
        let config = Arc::clone(&self.config);
        ClientConnection::new(config, Version::V1, self.name.clone(), parameters)
            .expect("a connection")
    }

    /// Returns the keys of Initial packets (RFC 9001 §5.2).
    pub(crate) fn initial_keys(dcid: &[u8]) -> Keys {
        let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let suite = suite.tls13().and_then(|suite| suite.quic_suite());
        let suite = suite.expect("a suite of QUIC");
        suite.keys(dcid, Side::Client, Version::V1)
    }
}

/// Accepts every certificate whose key the server has.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
