//! The same downloads in four places: the simulator, a bare connection in virtual time, the server's endpoint in virtual time, and
//! the product on real sockets over `linkem`. What they say of an algorithm is only as good as their agreement.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use sluicegate_cc::Registry;
use sluicegate_sim::{Bottleneck, Flow, LossWindow, Reorder, Simulation, Source};

use crate::conventions::{BODY_PER_DATAGRAM, DATAGRAM, init};
use crate::real_net::{Downloaded, RealDownload};
use crate::virtual_net::{Download, Scenario, Server, directions, run};

/// Headers of IP and UDP, which count on a real link and are not modelled elsewhere.
const HEADERS: u64 = 28;

/// A run that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(120);

/// Round trips from the client's first packet until the server sends data: handshake and request.
const HANDSHAKE: f64 = 1.5;

/// One of the downloads to compare.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Name on the command line.
    pub name: &'static str,
    /// Path and size in words.
    pub parameters: &'static str,
    /// Runs, each with another seed; where nothing is random they show what scheduling does.
    pub seeds: u64,
    path: Bottleneck,
    bytes: u64,
}

/// Places in which a download runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The simulator of `cc/sim`, as in the matrix.
    Simulator,
    /// quiche at both ends in virtual time, without the server around it.
    Connection,
    /// The server's endpoint in virtual time, with its turns, pacing slack and quantum: the matrix, end to end.
    Endpoint,
}

impl Place {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Simulator, Self::Connection, Self::Endpoint];
}

/// Returns the downloads.
pub fn comparisons() -> Vec<Comparison> {
    const MS: Duration = Duration::from_millis(1);
    const MBIT: u64 = 1_000_000;
    let slow = Bottleneck::new(20 * MBIT, 40 * MS, 1.0);
    let lossy = |path: Bottleneck, loss| Bottleneck { loss: vec![loss], ..path };
    let row =
        |name, parameters, path, bytes, seeds| Comparison { name, parameters, seeds, path, bytes };
    vec![
        row("clean-20", "10 MB, 20 Mbit/s, 40 ms", slow.clone(), 10_000_000, 3),
        row("loss-1", "the same, 1 % loss", lossy(slow, LossWindow::always(0.01)), 10_000_000, 10),
        row(
            "clean-100",
            "20 MB, 100 Mbit/s, 20 ms",
            Bottleneck::new(100 * MBIT, 20 * MS, 1.0),
            20_000_000,
            3,
        ),
        row(
            "reordering",
            "20 MB, 50 Mbit/s, 40 ms, 2 % late by 1 ms",
            Bottleneck {
                reorder: Some(Reorder { probability: 0.02, by: MS }),
                ..Bottleneck::new(50 * MBIT, 40 * MS, 1.0)
            },
            20_000_000,
            5,
        ),
        row(
            "collapse",
            "10 MB, 100 Mbit/s, 10 ms, 30 % loss of data for 2 s",
            lossy(
                Bottleneck::new(100 * MBIT, 10 * MS, 1.0),
                LossWindow { until: 2_000 * MS, ..LossWindow::always(0.3) },
            ),
            10_000_000,
            20,
        ),
    ]
}

impl Comparison {
    /// Returns the time from the client's first packet until the whole body has arrived; `None` if that takes too long.
    ///
    /// # Errors
    ///
    /// A connection could not be set up.
    pub fn run(
        &self,
        place: Place,
        algorithm: &'static str,
        seed: u64,
    ) -> Result<Option<Duration>> {
        match place {
            Place::Simulator => self.simulate(algorithm, seed),
            Place::Connection => self.connect(Server::Bare, algorithm, seed),
            Place::Endpoint => self.connect(Server::default(), algorithm, seed),
        }
    }

    fn connect(
        &self,
        server: Server,
        algorithm: &'static str,
        seed: u64,
    ) -> Result<Option<Duration>> {
        let downloads = vec![Download::new(algorithm, Source::Bulk(self.bytes))];
        let outcomes = run(&Scenario::new(server, downloads, &self.path, LIMIT, seed))?;
        Ok(outcomes.first().and_then(|outcome| outcome.completed))
    }

    /// Runs it on real sockets. The link has the rate and the room for the same datagrams with their headers.
    ///
    /// # Errors
    ///
    /// There is no network, or a program does not start.
    pub fn run_real(
        &self,
        algorithm: &'static str,
        seed: u64,
        program: &Path,
        core: usize,
    ) -> Result<Downloaded> {
        let with_headers = |bytes: u64| bytes * (DATAGRAM + HEADERS) / DATAGRAM;
        let mut path = self.path.clone();
        for (_, rate) in &mut path.rate {
            *rate = with_headers(*rate);
        }
        path.queue_bytes = with_headers(path.queue_bytes);
        let (down, up) = directions(&path);
        let download = RealDownload {
            algorithm,
            datagram: DATAGRAM,
            bytes: self.bytes,
            down,
            up,
            limit: LIMIT,
            seed,
        };
        Ok(download.run(program, core)?)
    }

    fn simulate(&self, algorithm: &str, seed: u64) -> Result<Option<Duration>> {
        let registry = Registry::builtin();
        let algorithm = registry.find(algorithm).context("no such algorithm")?;
        let start = (self.path.delay * 2).mul_f64(HANDSHAKE);
        let datagrams = self.bytes.div_ceil(BODY_PER_DATAGRAM);
        let flow = Flow { start, ..Flow::new(Source::Bulk(datagrams * DATAGRAM)) };
        let outcomes = Simulation::new(self.path.clone(), seed)
            .with(flow, algorithm.controller(&init(seed), &algorithm.defaults()))
            .run(LIMIT);
        let completed = outcomes.first().and_then(|outcome| outcome.completed);
        Ok(completed.map(|time| start + time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_agree_within_a_tenth_in_virtual_time() {
        // Others are random, and their mean takes many seeds.
        let all = comparisons();
        let clean = all.iter().find(|one| one.name == "clean-20");
        let clean = clean.expect("in the list");
        for algorithm in ["cubic", "bbr3"] {
            let times = Place::ALL.map(|place| {
                let time = clean.run(place, algorithm, 1).expect("runs");
                time.expect("in time").as_secs_f64()
            });
            let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
            let longest = times.iter().copied().fold(0.0, f64::max);
            assert!(longest <= 1.1 * shortest, "{algorithm}: {times:?}");
        }
    }
}
