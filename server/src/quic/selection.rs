//! Selects the congestion controller of a new connection.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use sluicegate_cc::{Algorithm, Options, Registry};
use sluicegate_config::{CongestionControl, CongestionRule, Listener};
use thiserror::Error;

use super::entropy::Entropy;

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
    /// Makes the controllers.
    pub factory: quiche::cc::Factory,
}

impl Choice {
    fn new(algorithm: Algorithm, options: Options) -> Self {
        Self {
            algorithm: algorithm.name,
            model_based: algorithm.model_based,
            factory: quiche::cc::Factory::new(algorithm, options),
        }
    }
}

/// A listener asks for an algorithm that this build does not have.
#[derive(Debug, Error)]
#[error("unknown congestion control algorithm `{0}`; `sluicegate cc` lists those of this build")]
pub struct UnknownAlgorithm(String);

/// A choice for some of a listener's clients.
#[derive(Clone)]
pub struct Rule {
    /// Networks of the clients.
    pub networks: Vec<IpNet>,
    /// Share of their connections, 0 to 1.
    pub share: f64,
    /// Algorithm that they get.
    pub choice: Choice,
}

/// All choices of one listener, as one worker makes them. A clone learns by itself.
#[derive(Clone)]
pub struct Selection {
    rules: Vec<Rule>,
    own: Choice,
    guard: Option<Guard>,
}

impl Selection {
    /// Takes over what an earlier one has learnt, where that still means something.
    pub fn keep_learnt(&mut self, earlier: &mut Selection) {
        if let (Some(guard), Some(before)) = (&mut self.guard, &mut earlier.guard)
            && guard.below == before.below
        {
            guard.networks = std::mem::take(&mut before.networks);
            guard.order = std::mem::take(&mut before.order);
        }
    }

    /// Makes the choices of a configured listener.
    ///
    /// # Errors
    /// An algorithm that `registry` does not hold.
    pub fn of(listener: &Listener, registry: &Registry) -> Result<Self, UnknownAlgorithm> {
        let find = |name: &str| {
            let found = registry.find(name).copied();
            found.ok_or_else(|| UnknownAlgorithm(name.to_owned()))
        };
        let choice = |control: &CongestionControl| {
            let algorithm = find(&control.algorithm)?;
            Ok(Choice::new(algorithm, control.options.clone()))
        };
        let rule = |rule: &CongestionRule| {
            Ok(Rule {
                networks: rule.networks.clone(),
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
        Ok(Self::new(rules, own, guard))
    }

    /// Returns the algorithm of connections that no rule claims.
    pub fn own(&self) -> &'static str {
        self.own.algorithm
    }

    /// Makes a selection: the first rule that claims a connection decides, or `own` if none does.
    pub fn new(rules: Vec<Rule>, own: Choice, guard: Option<Guard>) -> Self {
        Self { rules, own, guard }
    }

    /// Returns the choice for a connection from `peer`, and whether the guard overruled another one.
    pub fn choose(&mut self, peer: IpAddr, entropy: &mut Entropy, now: Instant) -> (&Choice, bool) {
        let peer = peer.to_canonical();
        let claims = |rule: &&Rule| {
            rule.networks.iter().any(|network| network.contains(&peer))
                && (rule.share >= 1.0 || unit(entropy) < rule.share)
        };
        let chosen = self
            .rules
            .iter()
            .find(claims)
            .map_or(&self.own, |rule| &rule.choice);
        match &self.guard {
            Some(guard) if chosen.model_based && guard.remembers(peer, now) => {
                (&guard.instead, true)
            }
            _ => (chosen, false),
        }
    }

    /// Takes a measured minimum round-trip time to `peer`. Returns the network if the guard is now set for it.
    pub fn learn(&mut self, peer: IpAddr, min_rtt: Duration, now: Instant) -> Option<IpNet> {
        self.guard
            .as_mut()?
            .learn(peer.to_canonical(), min_rtt, now)
    }
}

/// Returns the choice for guarded networks: the first of the listener's own that has no model, with the operator's
/// options, or else the first algorithm of `registry` that has none, at its defaults.
fn unguarded(own: &Choice, rules: &[Rule], registry: &Registry) -> Option<Choice> {
    let configured = std::iter::once(own).chain(rules.iter().map(|rule| &rule.choice));
    let configured = configured.filter(|choice| !choice.model_based).cloned();
    let listed = registry.iter().filter(|algorithm| !algorithm.model_based);
    let listed = listed.map(|algorithm| Choice::new(*algorithm, algorithm.defaults()));
    configured.chain(listed).next()
}

/// Returns a number from 0 to 1, 1 excluded.
fn unit(entropy: &mut Entropy) -> f64 {
    f64::from(u32::from_ne_bytes(entropy.take())) / (f64::from(u32::MAX) + 1.0)
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
        Self {
            below,
            instead,
            networks: HashMap::new(),
            order: VecDeque::new(),
        }
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
mod tests {
    use super::*;

    fn choice(algorithm: &'static str) -> Choice {
        let registry = Registry::builtin();
        let cubic = *registry.find("cubic").unwrap();
        Choice {
            algorithm,
            model_based: registry.find(algorithm).is_some_and(|a| a.model_based),
            factory: quiche::cc::Factory::new(cubic, cubic.defaults()),
        }
    }

    fn rule(networks: &[&str], share: f64, algorithm: &'static str) -> Rule {
        Rule {
            networks: networks.iter().map(|n| n.parse().unwrap()).collect(),
            share,
            choice: choice(algorithm),
        }
    }

    fn chosen(selection: &mut Selection, peer: &str, now: Instant) -> (&'static str, bool) {
        let mut entropy = Entropy::new();
        let (choice, guarded) = selection.choose(peer.parse().unwrap(), &mut entropy, now);
        (choice.algorithm, guarded)
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = vec![
            rule(&["10.1.0.0/16"], 1.0, "narrow"),
            rule(&["10.0.0.0/8", "fd00::/8"], 1.0, "wide"),
            rule(&["10.2.0.0/16"], 1.0, "never reached"),
        ];
        let mut selection = Selection::new(rules, choice("own"), None);
        let now = crate::clock::now();
        for (peer, expected) in [
            ("10.1.2.3", "narrow"),
            ("10.2.2.3", "wide"),
            ("::ffff:10.1.2.3", "narrow"),
            ("fd00::1", "wide"),
            ("192.0.2.1", "own"),
            ("2001:db8::1", "own"),
        ] {
            assert_eq!(
                chosen(&mut selection, peer, now),
                (expected, false),
                "{peer}"
            );
        }
    }

    #[test]
    fn shares_divide_the_connections() {
        const CONNECTIONS: usize = 100_000;
        let rules = vec![
            rule(&["0.0.0.0/0"], 0.0, "none"),
            rule(&["0.0.0.0/0"], 0.1, "tenth"),
            rule(&["0.0.0.0/0"], 0.5, "half of the rest"),
        ];
        let mut selection = Selection::new(rules, choice("own"), None);
        let mut entropy = Entropy::new();
        let (peer, now) = ("192.0.2.1".parse().unwrap(), crate::clock::now());
        let mut counts = HashMap::new();
        for _ in 0..CONNECTIONS {
            let (choice, _) = selection.choose(peer, &mut entropy, now);
            *counts.entry(choice.algorithm).or_insert(0_usize) += 1;
        }
        // Ten standard deviations of the binomial distribution, and more.
        let about = |name: &str, share: usize| {
            let (count, expected) = (counts[name], CONNECTIONS / 100 * share);
            assert!(count.abs_diff(expected) < 2000, "{name}: {count}");
        };
        assert!(!counts.contains_key("none"));
        about("tenth", 10);
        about("half of the rest", 45);
        about("own", 45);
    }

    #[test]
    fn the_guard_overrules_bbr3_in_a_measured_network_for_a_while() {
        let guard = Guard::new(Duration::from_millis(1), choice("cubic"));
        let rules = vec![rule(&["10.9.0.0/16"], 1.0, "reno")];
        let mut selection = Selection::new(rules, choice("bbr3"), Some(guard));
        let start = crate::clock::now();
        assert_eq!(chosen(&mut selection, "10.0.0.1", start), ("bbr3", false));
        let (peer, neighbour) = ("10.0.0.1".parse().unwrap(), "10.0.0.200");
        let learn = |selection: &mut Selection, micros, at| {
            selection.learn(peer, Duration::from_micros(micros), at)
        };
        assert_eq!(learn(&mut selection, 1000, start), None);
        assert_eq!(chosen(&mut selection, neighbour, start), ("bbr3", false));
        let network = Some("10.0.0.0/24".parse().unwrap());
        assert_eq!(learn(&mut selection, 999, start), network);
        assert_eq!(learn(&mut selection, 200, start), None, "said once");
        assert_eq!(chosen(&mut selection, neighbour, start), ("cubic", true));
        assert_eq!(chosen(&mut selection, "10.0.1.1", start), ("bbr3", false));
        let later = start + MEMORY;
        assert_eq!(chosen(&mut selection, neighbour, later), ("bbr3", false));
        assert_eq!(learn(&mut selection, 200, later), network, "said again");
        // Another algorithm needs no guard.
        let other = "10.9.0.1".parse().unwrap();
        selection.learn(other, Duration::from_micros(10), start);
        assert_eq!(chosen(&mut selection, "10.9.0.1", start), ("reno", false));
    }

    #[test]
    fn guarded_network_gets_the_operators_own_choice_before_a_default() {
        let registry = Registry::builtin();
        let instead = |own: &Choice, rules: &[Rule]| unguarded(own, rules, &registry).unwrap();
        let same = |a: &Choice, b: &Choice| a.factory == b.factory;
        let (own, bbr3) = (choice("cubic"), choice("bbr3"));
        assert!(same(&instead(&own, &[]), &own), "the listener's own");
        let rules = [
            rule(&["10.0.0.0/8"], 1.0, "bbr3"),
            rule(&[], 0.5, "reno"),
            rule(&[], 1.0, "cubic"),
        ];
        assert!(same(&instead(&bbr3, &rules), &rules[1].choice));
        assert_eq!(instead(&bbr3, &[]).algorithm, "cubic", "the default");
    }

    #[test]
    fn the_guard_forgets_the_oldest_networks() {
        let mut guard = Guard::new(Duration::from_millis(1), choice("cubic"));
        let now = crate::clock::now();
        let address = |n: usize| IpAddr::from(Ipv4Addr::from_bits(u32::try_from(n << 8).unwrap()));
        for n in 0..=MAX_NETWORKS {
            guard.learn(address(n), Duration::ZERO, now);
        }
        assert_eq!(
            (guard.networks.len(), guard.order.len()),
            (MAX_NETWORKS, MAX_NETWORKS)
        );
        assert!(!guard.remembers(address(0), now));
        assert!(guard.remembers(address(1), now) && guard.remembers(address(MAX_NETWORKS), now));
    }
}
