//! HTTP/1.1 (RFC 9112) and HTTP/2 (RFC 9113) over TCP: accepts connections, and serves their requests on an origin thread.
//!
//! hyper parses and frames HTTP/1.1, h2 does HTTP/2; the gate decides; handlers run on the same thread, so no ring stands in between.

mod accept;
mod addresses;
mod body;
mod config;
mod connection;
mod connection_list;
mod counters;
mod errors;
mod exchange;
mod frames;
mod front;
mod gather;
mod handshakes;
mod heads;
mod http2;
mod lingering;
mod link_account;
mod listener_phases;
mod metered;
mod missing_headers;
mod open_connections;
mod open_request;
mod open_requests;
mod paced;
mod progress;
mod proxy_protocol;
mod read_ahead;
mod refused_head;
mod refused_heads;
mod request;
mod request_body;
mod request_guard;
mod response;
mod run;
mod send_buffer;
mod serve;
mod served;
mod service;
mod socket_info;
mod stream_task;
mod tls_stream;
mod tunnel;
mod tunnel_reader;
mod unread_body;
mod upload;
mod watchdog;
mod window;

pub use accept::BACKLOG;
pub use config::{TcpConfig, TcpListenerConfig};
pub use connection_list::FrontInspection;
pub use counters::{ConnectionCounters, TcpCounters};
pub use front::{FrontCommand, FrontSender, FrontShare};
pub use missing_headers::MissingHeaders;
pub use run::{FrontSetup, start};
