//! The tables of a file: each is a plain struct that declares its keys.

mod acme;
mod basic_auth;
mod compress;
mod connect_udp;
mod dpdk;
mod error_pages;
mod fastcgi;
mod foreign_variables;
mod group;
mod handler;
mod hash_by;
mod headers;
mod health_check;
mod host_pattern;
mod limits;
mod listener;
mod matching;
mod network;
mod observe;
mod pool;
mod pool_upstream;
mod proxy;
mod proxy_protocol;
mod quic;
mod rate_limit;
mod response_headers;
mod root;
mod route;
mod route_settings;
mod route_site;
mod server;
mod site;
mod status_range;
mod tracing;
mod upstream;
mod upstream_tls;
mod without_secrets;

pub use acme::{Acme, AcmeChallenge};
pub use basic_auth::BasicAuth;
pub use compress::{Compress, CompressionAlgorithm, MediaRange, RouteCompression};
pub use connect_udp::{ConnectUdp, UdpHost, UdpTarget};
pub use dpdk::{Dpdk, PortAddress, PortNeighbor};
pub use error_pages::{ErrorPage, ErrorStatuses};
pub use fastcgi::FastCgi;
pub use foreign_variables::ForeignVariable;
pub use group::{Cores, Group, Scheduler};
pub use handler::*;
pub use hash_by::HashBy;
pub use headers::HeaderEdits;
pub use health_check::HealthCheck;
pub use host_pattern::HostPattern;
pub use limits::Limits;
pub use listener::{
    ClientAddressField, ClientAuth, CongestionRule, Listener, PlainHttp, Tls, TlsVersion,
};
pub use matching::{FieldMatch, NamedMatch, PathPattern, QueryMatch, ValueMatch, compile_regex};
pub use observe::{
    AccessFormat, AccessLog, Admin, Log, LogFormat, LogLevel, LogTarget, Qlog, QlogLevel,
};
pub use pool::{Balance, Pool, PoolChoice, PoolSettings};
pub use pool_upstream::{PoolUpstream, Upstreams};
pub use proxy::{HostHeader, Proxy, Via};
pub use proxy_protocol::ProxyProtocolVersion;
pub use quic::Quic;
pub use rate_limit::{Rate, RateLimit};
pub use response_headers::ResponseHeaders;
pub use root::Config;
pub use route::{Fallback, Handler, Route};
pub use route_settings::{Inheritable, RouteSettings};
pub use route_site::RouteSite;
pub use server::Server;
pub use site::{SharedSettings, SiteDefaults};
pub use status_range::StatusRange;
pub use tracing::{AcceptRequestId, RequestIdField, TraceparentMode, Tracing};
pub use upstream::UpstreamAddress;
pub use upstream_tls::UpstreamTls;
