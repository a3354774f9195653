//! The client of a request and the front that it uses.

mod client_certificate;

use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, Version};
use sluicegate_base::address::ValidatedAddress;
use sluicegate_base::observe::access::TlsSession;

pub use self::client_certificate::ClientCertificate;
use super::trusted_proxies::TrustedProxies;

/// Client of a request, at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Address of the client: the last one that it has proved to receive at, or as a trusted proxy names it, with port 0 if it names
    /// none.
    pub address: ValidatedAddress,
    /// Trusted proxy between the client and this server.
    pub proxy: Option<ValidatedAddress>,
    /// Address of the server on that network path.
    pub local: Option<SocketAddr>,
    /// The request came in early data, so somebody may be replaying it (RFC 8470).
    pub early_data: bool,
    /// Connection of the client, the same for all its requests.
    pub connection: Arc<PeerConnection>,
}

impl Peer {
    /// Returns the address of the client of a request with these fields: another one, if this peer is a trusted proxy.
    pub fn client(&self, fields: &[(HeaderName, HeaderValue)]) -> ValidatedAddress {
        let named = self.connection.trusted_proxies.client(self.address, fields);
        named.unwrap_or(self.address)
    }

    /// Returns whether the other end of the connection is a trusted proxy.
    pub fn is_trusted_proxy(&self) -> bool {
        let sender = self.proxy.unwrap_or(self.address);
        self.connection.trusted_proxies.contains(sender.ip())
    }

    /// Returns the client of a request with these fields: another one, if this peer is a trusted proxy.
    #[must_use]
    pub fn of_request(self, fields: &[(HeaderName, HeaderValue)]) -> Peer {
        match self.connection.trusted_proxies.client(self.address, fields) {
            Some(address) => Peer { address, proxy: Some(self.address), ..self },
            None => self,
        }
    }
}

/// A client's connection, as its front knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConnection {
    /// Protocol of the requests.
    pub version: Version,
    /// Scheme of the front: `https` where the connection is encrypted, whatever the client writes into `:scheme`.
    pub scheme: &'static str,
    /// Name of the listener.
    pub listener: Arc<str>,
    /// Name that the client asked for in the TLS handshake (SNI).
    pub server_name: Option<Box<str>>,
    /// Protocol that the TLS handshake agreed on (ALPN); empty without TLS.
    pub alpn: Box<[u8]>,
    /// TLS session, where there is one.
    pub tls: Option<TlsSession>,
    /// Certificate of the client, if the listener asks for one and the client has shown it.
    pub client_certificate: Option<Arc<ClientCertificate>>,
    /// Connection ID for logs and traces: over QUIC the client's first destination connection ID.
    pub id: Box<[u8]>,
    /// Congestion control algorithm of the connection; `kernel` over TCP.
    pub algorithm: &'static str,
    /// Trusted proxies of the listener.
    pub trusted_proxies: Arc<TrustedProxies>,
}

impl PeerConnection {
    /// Returns a connection of the HTTP/3 front, before its TLS handshake.
    pub fn http3(listener: Arc<str>, id: Box<[u8]>, algorithm: &'static str) -> PeerConnection {
        PeerConnection {
            version: Version::HTTP_3,
            scheme: "https",
            listener,
            server_name: None,
            alpn: Box::default(),
            tls: None,
            client_certificate: None,
            id,
            algorithm,
            trusted_proxies: Arc::default(),
        }
    }

    /// Returns a connection of the front over TCP, after its TLS handshake if it has one.
    pub fn tcp(
        listener: Arc<str>,
        version: Version,
        scheme: &'static str,
        id: Box<[u8]>,
    ) -> PeerConnection {
        PeerConnection { version, scheme, ..PeerConnection::http3(listener, id, "kernel") }
    }

    /// Returns the protocol as logs write it.
    pub fn protocol(&self) -> &'static str {
        match self.version {
            Version::HTTP_3 => "HTTP/3",
            Version::HTTP_2 => "HTTP/2",
            Version::HTTP_10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        }
    }
}
