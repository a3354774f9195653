//! Selects the congestion controller of a new connection.

mod resume;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use boring::hash::hmac_sha256;
use ipnet::IpNet;
pub use resume::KnownPath;
use resume::Resume;
use sluicegate_base::address::{UnvalidatedAddress, ValidatedAddress};
use sluicegate_base::clients::SourcePrefix;
use sluicegate_base::networks::Networks;
use sluicegate_cc::{Algorithm, Options, Registry};
use sluicegate_config::{CongestionControl, CongestionRule, Listener};
use thiserror::Error;

use crate::congestion::path_table::Resumptions;

/// Time that a measured network is remembered.
const MEMORY: Duration = Duration::from_secs(600);

/// Networks remembered at a time; the oldest is forgotten first.
const MAX_NETWORKS: usize = 4096;

/// An algorithm with its options, ready to make a controller for each path.
#[derive(Clone)]
pub struct Choice {
    /// Name of the algorithm, for logs and traces.
    pub algorithm: &'static str,
    /// Whether the algorithm paces by a model of the path, from which the guard keeps short paths.
    pub model_based: bool,
    /// Whether the response to ECN marks is scalable (RFC 9330).
    pub scalable: bool,
    /// Makes the controllers.
    pub factory: quiche::cc::Factory,
}

impl Choice {
    fn new(algorithm: Algorithm, options: Options) -> Self {
        Self {
            algorithm: algorithm.name,
            model_based: algorithm.model_based,
            scalable: algorithm.scalable,
            factory: quiche::cc::Factory::new(algorithm, options),
        }
    }

    /// Returns the maker of one connection's controllers, of which the first resumes what is known of its path.
    pub fn factory_for(&self, known: Option<KnownPath>) -> quiche::cc::Factory {
        match known {
            Some(KnownPath { memory, max_jump, .. }) => self.factory.resuming(memory, max_jump),
            None => self.factory.clone(),
        }
    }
}

/// A listener asks for an algorithm that this build does not have.
#[derive(Debug, Error)]
#[error("unknown congestion control algorithm `{0}`; `sluicegate cc` lists those of this build")]
pub struct UnknownAlgorithm(String);

/// A choice for some of a listener's clients.
#[derive(Clone)]
pub struct SelectionRule {
    /// Networks of the clients.
    pub networks: Networks,
    /// Share of these clients, 0 to 1.
    pub share: f64,
    /// Algorithm that they get.
    pub choice: Choice,
}

/// All choices of one listener, as one worker makes them. A clone learns round-trip times by itself, and shares what is known of
/// the paths' capacities.
#[derive(Clone)]
pub struct Selection {
    rules: Vec<SelectionRule>,
    own: Choice,
    /// Key of the draw that decides which clients belong to a share.
    draw_key: [u8; 32],
    guard: Option<Guard>,
    resume: Option<Resume>,
}

impl Selection {
    /// Takes over what an earlier one of the same worker has learnt, where that still means something.
    pub fn keep_learnt(&mut self, earlier: &mut Selection) {
        if let (Some(guard), Some(before)) = (&mut self.guard, &mut earlier.guard)
            && guard.below == before.below
        {
            guard.networks = std::mem::take(&mut before.networks);
            guard.order = std::mem::take(&mut before.order);
        }
    }

    /// Makes the choices of a configured listener. Workers and instances with the same `draw_key` choose alike. What is known of
    /// paths is shared with an `earlier` selection of the same settings.
    ///
    /// # Errors
    /// An algorithm that `registry` does not hold.
    pub fn of(
        listener: &Listener,
        registry: &Registry,
        draw_key: [u8; 32],
        earlier: Option<&Selection>,
    ) -> Result<Self, UnknownAlgorithm> {
        let find = |name: &str| {
            let found = registry.find(name).copied();
            found.ok_or_else(|| UnknownAlgorithm(name.to_owned()))
        };
        let choice = |control: &CongestionControl| {
            let algorithm = find(&control.algorithm)?;
            Ok(Choice::new(algorithm, control.options.clone()))
        };
        let rule = |rule: &CongestionRule| {
            Ok(SelectionRule {
                networks: Networks::new(&rule.networks),
                share: rule.share,
                choice: choice(&rule.congestion_control)?,
            })
        };
        let rules = listener.congestion_rules.iter().map(rule);
        let rules: Vec<_> = rules.collect::<Result<_, _>>()?;
        let own = choice(&listener.congestion_control)?;
        let instead = unguarded(&own, &rules, registry);
        let guard = listener.low_rtt_guard.zip(instead);
        let guard = guard.map(|(below, instead)| Guard::new(below, instead));
        Ok(Self {
            draw_key,
            resume: Resume::of(listener, earlier.and_then(|earlier| earlier.resume.as_ref())),
            ..Self::new(rules, own, guard)
        })
    }

    /// Returns the algorithm of connections that no rule claims.
    pub fn own(&self) -> &'static str {
        self.own.algorithm
    }

    /// Makes a selection: the first rule that claims a connection decides, or `own` if none does.
    pub fn new(rules: Vec<SelectionRule>, own: Choice, guard: Option<Guard>) -> Self {
        Self { rules, own, draw_key: [0; 32], guard, resume: None }
    }

    /// Returns what is known of the path from an address of the server to a client that is known later, for a connection whose events count in
    /// `events`; `None` if the listener does not resume.
    pub fn path(&self, local: IpAddr, events: &Arc<Resumptions>) -> Option<KnownPath> {
        let resume = self.resume.as_ref()?;
        Some(resume.path(local, events))
    }

    /// Returns the choice for a connection whose packets go to `peer`, and whether the guard overruled another one. A client gets
    /// the same choice for all its connections.
    ///
    /// The address need not be validated: the choice is how to send to it, and a handshake that comes from elsewhere never ends.
    pub fn choose(&mut self, peer: UnvalidatedAddress, now: Instant) -> (&Choice, bool) {
        let address = peer.ip().to_canonical();
        let claims = |(index, rule): &(usize, &SelectionRule)| {
            rule.networks.contains(address)
                && (rule.share >= 1.0 || draw(&self.draw_key, peer, *index) < rule.share)
        };
        let chosen =
            self.rules.iter().enumerate().find(claims).map_or(&self.own, |(_, rule)| &rule.choice);
        match &self.guard {
            Some(guard) if chosen.model_based && guard.remembers(address, now) => {
                (&guard.instead, true)
            }
            _ => (chosen, false),
        }
    }

    /// Takes a measured minimum round-trip time to `peer`. Returns the network if the guard is now set for it.
    pub fn learn(
        &mut self,
        peer: ValidatedAddress,
        min_rtt: Duration,
        now: Instant,
    ) -> Option<IpNet> {
        self.guard.as_mut()?.learn(peer.ip().to_canonical(), min_rtt, now)
    }
}

/// Returns the choice for guarded networks: the first of the listener's own that has no model and is not scalable, with
/// the operator's options, or else the first such algorithm of `registry`, at its defaults.
fn unguarded(own: &Choice, rules: &[SelectionRule], registry: &Registry) -> Option<Choice> {
    let configured = std::iter::once(own).chain(rules.iter().map(|rule| &rule.choice));
    // A scalable algorithm is only for the networks that the operator has chosen for it.
    let configured = configured.filter(|choice| !choice.model_based && !choice.scalable).cloned();
    let listed = registry.iter().filter(|algorithm| !algorithm.model_based && !algorithm.scalable);
    let listed = listed.map(|algorithm| Choice::new(*algorithm, algorithm.defaults()));
    configured.chain(listed).next()
}

/// Returns a number from 0 to 1, 1 excluded: always the same for a client and a rule, and unforeseeable without the key.
fn draw(key: &[u8; 32], peer: UnvalidatedAddress, rule: usize) -> f64 {
    let mut drawn_for = rule.to_be_bytes().to_vec();
    drawn_for.extend(SourcePrefix::from(peer).octets());
    let digest = hmac_sha256(key, &drawn_for).expect("HMAC-SHA256 fails only where memory ran out");
    let (first, _) = digest.split_first_chunk().expect("a digest of 32 bytes holds 4");
    f64::from(u32::from_be_bytes(*first)) / (f64::from(u32::MAX) + 1.0)
}

/// Keeps model-based algorithms away from networks to which the round-trip time is too low for a model.
#[derive(Clone)]
pub struct Guard {
    below: Duration,
    instead: Choice,
    /// Networks with the time until which each is remembered.
    networks: HashMap<IpNet, Instant>,
    /// The networks in the order in which they were first measured.
    order: VecDeque<IpNet>,
}

impl Guard {
    /// Networks with a round-trip time under `below` get `instead`.
    pub fn new(below: Duration, instead: Choice) -> Self {
        Self { below, instead, networks: HashMap::new(), order: VecDeque::new() }
    }

    fn remembers(&self, peer: IpAddr, now: Instant) -> bool {
        let until = self.networks.get(&network_of(peer));
        until.is_some_and(|until| *until > now)
    }

    fn learn(&mut self, peer: IpAddr, min_rtt: Duration, now: Instant) -> Option<IpNet> {
        if min_rtt >= self.below {
            return None;
        }
        let network = network_of(peer);
        let before = self.networks.insert(network, now + MEMORY);
        match before {
            Some(until) if until > now => return None,
            Some(_) => {}
            None => {
                self.order.push_back(network);
                if self.order.len() > MAX_NETWORKS
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.networks.remove(&oldest);
                }
            }
        }
        Some(network)
    }
}

/// Returns the IPv4 /24 or IPv6 /64 of an address.
fn network_of(peer: IpAddr) -> IpNet {
    let (address, prefix) = match peer {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            (IpAddr::from(Ipv4Addr::new(a, b, c, 0)), 24)
        }
        IpAddr::V6(v6) => {
            let high = v6.to_bits() & !u128::from(u64::MAX);
            (IpAddr::from(Ipv6Addr::from_bits(high)), 64)
        }
    };
    IpNet::new_assert(address, prefix)
}

#[cfg(test)]
mod tests;
