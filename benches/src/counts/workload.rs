//! The work whose instructions are counted.

use sluicegate_cc::Registry;

use super::report::ALLOWED;
use super::{controllers, proxy, router};
use crate::virtual_net::{count_idle_turns, count_pages, count_upload};

/// Requests, and requests before them as a warm-up.
const REQUESTS: (u64, u64) = (300, 30);

/// Body of each response to them, bytes.
const RESPONSE: u64 = 1_024;

/// Bodies that are downloaded, and bodies before them as a warm-up.
const DOWNLOADS: (u64, u64) = (6, 1);

/// Body of a download, and of an upload before the one that counts, bytes.
const BODY: u64 = 500_000;

/// Body of the upload that counts, bytes.
const UPLOAD: u64 = 3_000_000;

/// Connections of a worker that has nothing to do.
const CONNECTIONS: u8 = 16;

/// Turns of such a worker.
const IDLE_TURNS: u64 = 1_000;

/// Largest change that passes of such a turn. It has some 15 instructions for each connection, of which the compiler adds or saves one
/// when code elsewhere changes: by then it differed by 8 %. A look at one field more of each connection is a larger change.
const IDLE_ALLOWED: f64 = 0.15;

/// Times that each request of the router's is looked up.
const LOOKUPS: u64 = 500;

/// Requests that are proxied, and requests before them as a warm-up.
const PROXIED: (u64, u64) = (300, 30);

/// Runs some work and returns the number of its units.
type Work = Box<dyn Fn() -> anyhow::Result<u64> + Send + Sync>;

/// Some work.
pub struct Workload {
    /// Name in the file of figures.
    pub name: String,
    /// Unit of work that the instructions are divided by.
    pub unit: &'static str,
    /// Largest change that passes, relative to the figure in the repository.
    pub allowed: f64,
    work: Work,
}

impl Workload {
    fn new(
        name: &str,
        unit: &'static str,
        work: impl Fn() -> anyhow::Result<u64> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.to_owned(), unit, allowed: ALLOWED, work: Box::new(work) }
    }

    fn allowing(self, allowed: f64) -> Self {
        Self { allowed, ..self }
    }

    /// Runs the work, and returns the number of its units.
    ///
    /// # Errors
    ///
    /// The first error of the work.
    pub fn run(&self) -> anyhow::Result<u64> {
        (self.work)()
    }
}

/// Returns all workloads, in the order of the table.
#[must_use]
pub fn all() -> Vec<Workload> {
    let mut all = vec![
        Workload::new("request", "a request over HTTP/3 for 1 KiB", || {
            count_pages(&[RESPONSE], REQUESTS.1, REQUESTS.0)?;
            Ok(REQUESTS.0)
        }),
        Workload::new("download", "a datagram sent, and its ACK", || {
            Ok(count_pages(&[BODY], DOWNLOADS.1, DOWNLOADS.0)?)
        }),
        Workload::new("upload", "a datagram received, and its ACK", || {
            Ok(count_upload(BODY, UPLOAD)?)
        }),
        Workload::new("idle-turn", "a turn of 16 idle connections", || {
            count_idle_turns(CONNECTIONS, IDLE_TURNS)?;
            Ok(IDLE_TURNS)
        })
        .allowing(IDLE_ALLOWED),
        Workload::new("route", "a lookup among 86 routes", || router::count(LOOKUPS)),
        Workload::new("proxy", "a request to an upstream for 1 KiB", || {
            proxy::count(PROXIED.1, PROXIED.0)
        }),
    ];
    for algorithm in Registry::builtin().iter() {
        let name = algorithm.name;
        all.extend([
            Workload::new(
                &format!("sent-{name}"),
                "a packet sent, reported to the controller",
                move || controllers::count_sent(name),
            ),
            Workload::new(
                &format!("acked-{name}"),
                "an ACK reported to the controller",
                move || controllers::count_acked(name),
            ),
        ]);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn workloads_have_names_of_their_own() {
        let all = all();
        let names: BTreeSet<_> = all.iter().map(|workload| &workload.name).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn every_workload_comes_to_its_end() {
        for workload in all() {
            let units = workload.run();
            assert!(units.is_ok_and(|units| units > 0), "{}", workload.name);
        }
    }
}
