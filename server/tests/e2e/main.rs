//! Clients that nobody here wrote, against the binary, on every backend.

#![expect(clippy::unwrap_used, reason = "a test stops where something is not as expected")]

mod access;
mod acme;
mod admin;
mod advice;
mod balance;
mod bounds;
mod browser;
mod certificates;
mod client;
mod client_auth;
mod compress;
mod connect_udp;
mod connection_ids;
mod connections;
mod directives;
mod doctor;
mod dpdk;
mod ecn;
mod examples;
mod explain;
mod failure;
mod fallback;
mod fastcgi;
mod faults;
mod files;
mod fronts;
mod greedy;
mod grpc;
mod hostile;
mod http3;
mod http3_upstream;
mod identified;
mod inherit;
mod installed;
mod lifecycle;
mod load;
mod logs;
mod memory;
mod memory_budget;
mod named_files;
mod names;
mod namespace;
mod nginx;
mod policy;
mod pools;
mod ports;
mod profiles;
mod prometheus;
mod protected;
mod proxy;
mod proxy_protocol;
mod qlog;
mod raw;
mod relay;
mod reload;
mod response_fields;
mod resume;
mod retry_budget;
mod returning;
mod routes;
mod samples;
mod secrets;
mod server;
mod smuggling;
mod supervisor;
mod tcp;
mod telemetry;
mod tls_options;
mod tls_upstream;
mod traces;
mod transfer;
mod unix_upstream;
mod upgrade;
mod upstream;
mod waits;
mod websocket;
mod wire;

use sluicegate_dataplane::requirements::skip;
use sluicegate_dataplane::{
    Acquired, Backend, DriverOptions, ListenerId, SocketOptions, Steering, open_group,
};

/// Makes a test of each function, which takes a backend's name, for each backend that can be named in a configuration.
macro_rules! on_every_backend {
    ($($(#[$attribute:meta])* $test:ident),* $(,)?) => {
        mod mio {
            $($(#[$attribute])* #[test] fn $test() { super::$test("mio"); })*
        }
        mod io_uring {
            $($(#[$attribute])* #[test] fn $test() {
                if crate::can_open(sluicegate_dataplane::Backend::IoUring) {
                    super::$test("io_uring");
                }
            })*
        }
    };
}
pub(crate) use on_every_backend;

/// Makes a test of each function for what no backend changes: on the one that `auto` takes.
macro_rules! on_auto {
    ($($(#[$attribute:meta])* $test:ident),* $(,)?) => {
        mod auto {
            $($(#[$attribute])* #[test] fn $test() { super::$test("auto"); })*
        }
    };
}
pub(crate) use on_auto;

/// Returns whether this host allows `backend`; reports io_uring as missing where it does not.
fn can_open(backend: Backend) -> bool {
    let any = ([127, 0, 0, 1], 0).into();
    let socket = Acquired::bind(ListenerId(0), any, 1).unwrap();
    let (options, buffers) = (SocketOptions::default(), DriverOptions::default());
    let mut group =
        open_group(backend, vec![socket], 1, Steering::Hash, &options, buffers).unwrap();
    match group.seeds.remove(0).open() {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(backend, Backend::IoUring, "{error}");
            skip("io_uring", &error);
            false
        }
    }
}
