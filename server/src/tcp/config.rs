//! The part of a configuration that fronts over TCP adopt.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use boring::ssl::SslContext;
use http::HeaderValue;
use sluicegate_base::networks::Networks;
use sluicegate_base::observe::request_logs::RequestLogWriters;
use sluicegate_dataplane::ListenerId;
use sluicegate_http::route::Site;
use sluicegate_http::trusted_proxies::TrustedProxies;

use crate::acme::Challenges;

/// What is served over TCP, and how; all fronts share it, and a reload makes another one.
pub struct TcpConfig {
    /// Routes and limits.
    pub site: Arc<Site>,
    /// Writers of the access log and of spans.
    pub logs: RequestLogWriters,
    /// Time after which a connection without requests is closed.
    pub idle_timeout: Duration,
    /// Time that connections of removed listeners get for their requests.
    pub drain_timeout: Duration,
    /// Responses to the challenges of an ACME authority, if certificates are obtained by ACME.
    pub challenges: Option<Challenges>,
    /// Listeners with sockets of TCP.
    pub listeners: TcpListeners,
}

/// Listeners by the identity of their address.
pub(super) type TcpListeners = BTreeMap<ListenerId, Arc<TcpListenerConfig>>;

/// A listener on one address.
pub struct TcpListenerConfig {
    /// Name of the listener.
    pub name: Arc<str>,
    /// TLS context of its certificates; `None` for a listener without TLS.
    pub tls: Option<SslContext>,
    /// Proxies whose word about a client counts.
    pub trusted_proxies: Arc<TrustedProxies>,
    /// Load balancers whose connections begin with a header of the PROXY protocol.
    pub proxy_protocol: Networks,
    /// Value of `alt-svc` in responses (RFC 7838), if they have one.
    pub alt_svc: Option<HeaderValue>,
    /// Port of https to which requests are redirected; `None` to serve them.
    pub redirect: Option<u16>,
}

impl TcpListenerConfig {
    /// Returns whether the connections of an address are those of many clients: of a proxy or of a load balancer.
    pub(super) fn is_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies.contains(address) || self.proxy_protocol.contains(address)
    }
}

/// Omits the keys.
impl std::fmt::Debug for TcpListenerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("TcpListenerConfig");
        debug.field("name", &self.name).finish_non_exhaustive()
    }
}

/// Omits the keys.
impl std::fmt::Debug for TcpConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.listeners.values().map(|listener| &listener.name);
        f.debug_list().entries(names).finish()
    }
}
