//! Settings of the proxies that are tested.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_config::{
    Balance, HashBy, HostHeader, PoolChoice, PoolSettings, PoolUpstream, Proxy, UpstreamAddress,
    UpstreamTls, Upstreams, Via,
};

/// Returns a proxy to these servers.
pub(crate) fn proxy(upstreams: &[SocketAddr]) -> Proxy {
    let address = |address: &SocketAddr| UpstreamAddress::Tcp(address.to_string());
    proxy_to(upstreams.iter().map(address).collect())
}

pub(super) fn proxy_to(upstreams: Vec<UpstreamAddress>) -> Proxy {
    let settings = PoolSettings {
        keepalive: 4,
        keepalive_timeout: Duration::from_secs(60),
        keepalive_max_age: Duration::from_secs(3600),
        resolver: Vec::new(),
        max_connections: 0,
        queue: 1024,
        queue_timeout: Duration::from_secs(5),
        retry_budget: 20,
        max_fails: 3,
        fail_timeout: Duration::from_secs(10),
        header_bytes: 16 << 10,
        proxy_protocol: None,
        congestion_control: None,
        tls: UpstreamTls {
            tls_name: None,
            tls_ca: None,
            tls_verify: true,
            tls_certificate: None,
            tls_key: None,
            http2: true,
        },
        balance: Balance::RoundRobin,
        hash_by: HashBy::ClientAddress,
        hash_load: 0,
        slow_start: Duration::ZERO,
    };
    let upstreams = upstreams.into_iter().map(PoolUpstream::new);
    let upstreams = Upstreams(upstreams.collect());
    Proxy {
        pool: PoolChoice::inline(upstreams, settings),
        host: HostHeader::Client,
        strip_prefix: false,
        raw_path: false,
        pass_fields: Vec::new(),
        rewrite: None,
        rewrite_location: sluicegate_config::RewriteLocation::Upstream,
        intercept_errors: false,
        connect_timeout: Duration::from_secs(3),
        head_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(60),
        websocket: true,
        upgrades: Vec::new(),
        tunnel_timeout: Duration::from_secs(3600),
        retries: 1,
        forwarded: true,
        via: Via::Name("sluicegate".to_owned()),
    }
}

/// Returns `proxy` with other settings of its pool.
pub(in crate::proxy) fn with(mut proxy: Proxy, change: impl FnOnce(&mut PoolSettings)) -> Proxy {
    let (PoolChoice::Inline(pool) | PoolChoice::Named(pool)) = &mut proxy.pool;
    change(&mut Arc::make_mut(pool).settings);
    proxy
}
