//! Options of the command line that describe a link.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sluicegate_sim::{Aqm, Bottleneck, LossWindow, Policer, Reorder};
use thiserror::Error;

use super::notation::{self, Room};
use crate::matrix;
use crate::virtual_net::directions;

/// The link. It limits and disturbs packets from the server to the client; the way back only has the delay, unless
/// `--both-ways` is given. Times of schedules count from the first packet
#[derive(Args, Clone, Debug, Default)]
pub struct LinkOptions {
    /// Path of a scenario of the matrix; the other options change parts of it
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// Rate of whole IP packets: 20mbit, 1gbit, unlimited [default: unlimited]
    #[arg(long, value_parser = notation::rate)]
    pub rate: Option<u64>,
    /// Another rate from then on, such as 10s:1mbit; may be given several times
    #[arg(long, value_name = "TIME:RATE", value_parser = notation::change)]
    pub rate_at: Vec<(Duration, u64)>,
    /// File with a line for each change of the rate, such as `1.5s 12mbit`; the first from 0s
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "rate_at"])]
    pub trace: Option<PathBuf>,
    /// Propagation delay one way, of each direction [default: 0s]
    #[arg(long, value_parser = notation::time)]
    pub delay: Option<Duration>,
    /// Room in the queue: 1bdp, 64kb, or 40ms at the first rate [default: 1bdp]
    #[arg(long, value_parser = notation::room)]
    pub queue: Option<Room>,
    /// AQM of the queue: codel, fq-codel or pie, each also with -ecn, which marks packets instead of dropping them; or dual-pi2,
    /// which does both [default: none, drops at the tail]
    #[arg(long, value_parser = notation::aqm)]
    pub aqm: Option<Aqm>,
    /// Random loss: 1%, or 30%@0s-2s for a time; may be given several times
    #[arg(long, value_parser = notation::loss)]
    pub loss: Vec<LossWindow>,
    /// Random loss on the way back
    #[arg(long, value_parser = notation::loss)]
    pub loss_back: Vec<LossWindow>,
    /// Largest deviation of the delay; packets keep their order
    #[arg(long, value_parser = notation::time)]
    pub jitter: Option<Duration>,
    /// Share of packets that others overtake, and their extra delay: 1%:5ms
    #[arg(long, value_parser = notation::reorder)]
    pub reorder: Option<Reorder>,
    /// Policer in front of the queue, with rate and burst: 10mbit:50kb
    #[arg(long, value_parser = notation::policer)]
    pub policer: Option<Policer>,
    /// Bytes in the queue above which ECN-capable packets are marked Congestion Experienced
    #[arg(long, value_name = "SIZE", value_parser = notation::size)]
    pub mark_above: Option<u64>,
    /// Packets on the way back arrive in batches, this far apart
    #[arg(long, value_name = "TIME", value_parser = notation::time)]
    pub hold_back: Option<Duration>,
    /// The way back is like the way there
    #[arg(long, conflicts_with_all = ["loss_back", "hold_back"])]
    pub both_ways: bool,
}

/// Why options describe no link.
#[derive(Debug, Error)]
pub enum OptionError {
    /// No scenario has that name.
    #[error("no scenario is named `{0}`: {1}")]
    Scenario(String, String),
    /// A trace could not be read.
    #[error("{0}: {1}")]
    Trace(String, String),
    /// A change of the rate at a time that is not later than the one before.
    #[error("expected each `--rate-at` later than the one before")]
    Order,
}

impl LinkOptions {
    /// Returns both directions: towards the client, and back.
    ///
    /// # Errors
    ///
    /// See [`OptionError`].
    pub fn directions(&self) -> Result<(Bottleneck, Bottleneck), OptionError> {
        let mut path = match &self.scenario {
            Some(name) => scenario(name)?,
            None => Bottleneck::unlimited(Duration::ZERO),
        };
        self.change_rate(&mut path)?;
        path.delay = self.delay.unwrap_or(path.delay);
        let (_, first) = path.rate.first().copied().unwrap_or_default();
        if first == u64::MAX && self.queue.is_none() {
            path.queue_bytes = u64::MAX;
        } else if self.scenario.is_none() || self.queue.is_some() {
            let room = self.queue.unwrap_or(Room::Bdp(1.0));
            path.queue_bytes = room.bytes(first, path.delay * 2);
        }
        path.aqm = self.aqm.or(path.aqm);
        path.jitter = self.jitter.unwrap_or(path.jitter);
        path.reorder = self.reorder.or(path.reorder);
        path.policer = self.policer.or(path.policer);
        path.ce_above = self.mark_above.or(path.ce_above);
        path.ack_hold = self.hold_back.unwrap_or(path.ack_hold);
        if !self.loss.is_empty() {
            path.loss.clone_from(&self.loss);
        }
        if !self.loss_back.is_empty() {
            path.ack_loss.clone_from(&self.loss_back);
        }
        let (down, up) = directions(&path);
        let up = if self.both_ways { down.clone() } else { up };
        Ok((down, up))
    }

    fn change_rate(&self, path: &mut Bottleneck) -> Result<(), OptionError> {
        if let Some(file) = &self.trace {
            let failed = |cause| OptionError::Trace(file.display().to_string(), cause);
            let text = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
            path.rate = notation::trace(&text).map_err(failed)?;
        }
        if let Some(rate) = self.rate {
            path.rate = vec![(Duration::ZERO, rate)];
        }
        for change in &self.rate_at {
            if path.rate.last().is_some_and(|last| last.0 >= change.0) {
                return Err(OptionError::Order);
            }
            path.rate.push(*change);
        }
        Ok(())
    }
}

fn scenario(name: &str) -> Result<Bottleneck, OptionError> {
    let scenarios = matrix::scenarios();
    let found = scenarios.iter().find(|scenario| scenario.name == name);
    found.map_or_else(
        || {
            let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
            Err(OptionError::Scenario(name.to_owned(), names.join(", ")))
        },
        |scenario| Ok(scenario.bottleneck.clone()),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        link: LinkOptions,
    }

    fn directions_of(words: &str) -> Result<(Bottleneck, Bottleneck), String> {
        let words = std::iter::once("linkem").chain(words.split_whitespace());
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        let directions = program.link.directions();
        directions.map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_asked_for_is_a_wire() {
        let (down, up) = directions_of("").expect("no options");
        for direction in [down, up] {
            assert_eq!(direction.rate, [(Duration::ZERO, u64::MAX)]);
            assert_eq!(direction.queue_bytes, u64::MAX);
            assert_eq!(direction.delay, Duration::ZERO);
        }
    }

    #[test]
    fn queue_is_one_bdp_unless_given_and_the_way_back_has_the_delay_alone() {
        let (down, up) = directions_of("--rate 20mbit --delay 50ms").expect("a link");
        assert_eq!(down.rate, [(Duration::ZERO, 20_000_000)]);
        assert_eq!(down.queue_bytes, 250_000);
        assert_eq!(up.delay, Duration::from_millis(50));
        assert_eq!(up.rate, [(Duration::ZERO, u64::MAX)]);
        let (down, up) =
            directions_of("--rate 20mbit --delay 50ms --queue 0.5bdp --both-ways").expect("a link");
        assert_eq!((down.queue_bytes, up.queue_bytes), (125_000, 125_000));
    }

    #[test]
    fn scenario_is_that_of_the_matrix_and_options_change_parts_of_it() {
        let fall = scenario("rate-fall").expect("a scenario");
        let (down, _) = directions_of("--scenario rate-fall").expect("a link");
        assert_eq!((&down.rate, down.queue_bytes), (&fall.rate, fall.queue_bytes));
        let (down, _) = directions_of("--scenario rate-fall --delay 5ms").expect("a link");
        assert_eq!((&down.rate, down.queue_bytes), (&fall.rate, fall.queue_bytes));
        assert_eq!(down.delay, Duration::from_millis(5));
        let unknown = directions_of("--scenario none").expect_err("unknown");
        assert!(unknown.contains("rate-fall"), "{unknown}");
    }

    #[test]
    fn aqm_is_that_of_the_scenario_or_the_one_given() {
        let aqm = |words| directions_of(words).map(|(down, up)| (down.aqm, up.aqm));
        let path = "--rate 20mbit --delay 5ms --aqm codel";
        let codel = Some(Aqm::CoDel { ecn: false });
        assert_eq!(aqm(path), Ok((codel, None)));
        assert_eq!(aqm("--scenario dual-pi2"), Ok((Some(Aqm::DualPi2), None)));
        assert_eq!(aqm("--scenario dual-pi2 --aqm codel"), Ok((codel, None)));
    }

    #[test]
    fn loss_is_of_its_own_direction() {
        let (down, up) =
            directions_of("--loss 30%@0s-2s --loss 1%@2s-3s --loss-back 5%").expect("");
        assert_eq!(down.loss.len(), 2);
        let back: Vec<_> = up.loss.iter().map(|loss| loss.probability).collect();
        assert_eq!(back, [0.05]);
    }

    #[test]
    fn rates_follow_each_other_in_time() {
        let (down, _) = directions_of("--rate 20mbit --rate-at 10s:1mbit").expect("a link");
        assert_eq!(down.rate.len(), 2);
        assert!(directions_of("--rate 20mbit --rate-at 2s:1mbit --rate-at 1s:2mbit").is_err());
    }
}
