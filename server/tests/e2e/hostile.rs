//! Clients that misbehave beside clients that do not.

mod crowd;
mod floods;
mod forged;
mod frames;
mod peers;
mod unread;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::admin::metrics;
use crate::client::{Client, Session};
use crate::server::PAGE;

/// Figures of the server that nothing may make grow.
#[derive(Clone, Debug)]
struct Figures {
    /// Bytes that the server's allocator has handed out.
    allocated: f64,
    /// Resident memory of the process.
    resident: f64,
    descriptors: f64,
    connections: f64,
    exchanges: f64,
    reserved: f64,
    all: BTreeMap<String, f64>,
}

impl Figures {
    fn read(admin: SocketAddr) -> Figures {
        let all = metrics(admin);
        Figures {
            allocated: all["sluicegate_allocator_allocated_bytes"],
            resident: all["process_resident_memory_bytes"],
            descriptors: all["process_open_fds"],
            connections: all["sluicegate_connections"],
            exchanges: all["sluicegate_origin_exchanges"],
            reserved: all["sluicegate_origin_reserved_bytes"],
            all,
        }
    }

    fn line(&self) -> String {
        format!(
            "allocated {:.1} MB, resident {:.1} MB, {} descriptors, {} connections, {} exchanges with {} bytes",
            self.allocated / 1e6,
            self.resident / 1e6,
            self.descriptors,
            self.connections,
            self.exchanges,
            self.reserved,
        )
    }

    /// Prints the counters of refusals and drops that grew since `before`.
    fn print_counted(&self, before: &Figures) {
        let words = ["dropped", "refused", "retries", "resets", "cancelled", "stalled", "rejected"];
        for (name, value) in &self.all {
            let grown = value - before.all.get(name).copied().unwrap_or_default();
            if grown > 0.0 && words.iter().any(|word| name.contains(word)) {
                println!("    {name} +{grown}");
            }
        }
    }
}

/// Clients that keep all rules, and what became of their requests.
#[derive(Default)]
struct Honest {
    stop: AtomicBool,
    responses: AtomicU64,
    failures: AtomicU64,
    bytes: AtomicU64,
}

impl Honest {
    /// Requests the page, and a body of `length` bytes, with `pause` between two requests, until it is stopped.
    async fn run(self: Arc<Self>, mut session: Session, length: u64, pause: Duration) {
        while !self.stop.load(Ordering::Relaxed) {
            for (path, expected) in
                [("/".to_owned(), PAGE.len() as u64), (format!("/bytes/{length}"), length)]
            {
                match body_length(&mut session, &path).await {
                    Ok(length) if length == expected => {
                        self.responses.fetch_add(1, Ordering::Relaxed);
                        self.bytes.fetch_add(length, Ordering::Relaxed);
                    }
                    other => {
                        self.failures.fetch_add(1, Ordering::Relaxed);
                        println!("{path}: {other:?}");
                        return;
                    }
                }
                tokio::time::sleep(pause).await;
            }
        }
    }
}

async fn body_length(session: &mut Session, path: &str) -> Result<u64, h3::error::StreamError> {
    let mut response = session.try_get(path).await?;
    let mut length = 0;
    while let Some(piece) = response.try_piece().await? {
        length += piece.len() as u64;
    }
    Ok(length)
}

/// Connects, and tries again where the server has no time for the handshake.
async fn connect(client: &Client, server: SocketAddr) -> Session {
    for _ in 0..20 {
        if let Some(session) = client.try_connect(server).await {
            return session;
        }
    }
    panic!("no connection in twenty attempts");
}

/// Returns a number of the environment, for runs of another size.
#[expect(clippy::disallowed_methods, reason = "the test runner is configured by the environment")]
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}
