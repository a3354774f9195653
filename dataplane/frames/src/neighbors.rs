//! The table of neighbours: who is asked when, and whose answer counts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::address::MacAddr;
use crate::bucket::TokenBucket;

/// Most hosts of the table besides gateways.
const CAPACITY: usize = 256;
/// Time for which an answer counts without being asked for again, milliseconds (RFC 4861 §10: 30 s).
const REACHABLE: u64 = 30_000;
/// Time between questions, milliseconds (RFC 4861 §10).
const RETRY: u64 = 1000;
/// Questions before a neighbour counts as silent (RFC 4861 §10).
const TRIES: u8 = 3;
/// Time for which a silent neighbour is not asked again, milliseconds.
const SILENT: u64 = 5000;
/// Questions for hosts per second, and at once. Those for gateways are few, and go before.
const ASKS: (u64, u64) = (100, 50);
/// Delay of a question that is over the limit, milliseconds.
const DELAY: u64 = 100;

/// Ethernet addresses of hosts that were asked for them.
///
/// The network cannot add a host: an entry begins with a question of ours. An answer counts only while a question is open,
/// the first one wins, and a known address is first asked for at itself, so that an answer of another station is ignored
/// as long as the neighbour responds.
#[derive(Debug)]
pub(crate) struct Neighbors {
    entries: BTreeMap<IpAddr, Entry>,
    asks: TokenBucket,
    /// Known addresses changed since the last look.
    changed: bool,
    /// Earliest time at which an entry is due.
    due: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// Time of the next question, or of the end of the state, milliseconds.
    due: u64,
    /// Time of the last use, milliseconds.
    used: u64,
    is_gateway: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// All stations are asked.
    Asking { tries: u8 },
    /// The address is known.
    Reachable(MacAddr),
    /// The address is known, and asked whether it still is right.
    Probing { mac: MacAddr, tries: u8 },
    /// Nobody answered.
    Silent,
}

impl State {
    fn mac(self) -> Option<MacAddr> {
        match self {
            Self::Reachable(mac) | Self::Probing { mac, .. } => Some(mac),
            Self::Asking { .. } | Self::Silent => None,
        }
    }
}

/// Result of a lookup of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Known(MacAddr),
    Asked,
    Silent,
}

impl Neighbors {
    /// Makes a table that keeps these gateways resolved.
    pub(crate) fn new(gateways: impl Iterator<Item = IpAddr>) -> Self {
        let entry = Entry { state: State::Asking { tries: 0 }, due: 0, used: 0, is_gateway: true };
        let entries: BTreeMap<_, _> = gateways.map(|gateway| (gateway, entry)).collect();
        Self {
            due: entries.values().map(|entry| entry.due).min(),
            entries,
            asks: TokenBucket::new(ASKS.0, ASKS.1),
            changed: false,
        }
    }

    /// Returns what is known of a neighbour. One that is unknown is asked at the next [`Neighbors::poll`].
    pub(crate) fn resolve(&mut self, address: IpAddr, now: u64) -> Answer {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.used = now;
            return match entry.state {
                State::Reachable(mac) | State::Probing { mac, .. } => Answer::Known(mac),
                State::Asking { .. } => Answer::Asked,
                State::Silent => Answer::Silent,
            };
        }
        self.make_room();
        let entry =
            Entry { state: State::Asking { tries: 0 }, due: now, used: now, is_gateway: false };
        self.entries.insert(address, entry);
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
        Answer::Asked
    }

    /// Removes the host that was not used for longest, if there is no room for one more: of those that are unknown, if
    /// there are any, so that questions about hosts that do not exist displace no other.
    fn make_room(&mut self) {
        let hosts = || self.entries.iter().filter(|(_, entry)| !entry.is_gateway);
        if hosts().count() < CAPACITY {
            return;
        }
        let oldest = hosts().min_by_key(|(_, entry)| (entry.state.mac().is_some(), entry.used));
        if let Some(address) = oldest.map(|(address, _)| *address) {
            let removed = self.entries.remove(&address);
            self.changed |= removed.is_some_and(|entry| entry.state.mac().is_some());
        }
    }

    /// Takes the answer of a neighbour. Returns whether it was asked for.
    pub(crate) fn on_answer(&mut self, address: IpAddr, mac: MacAddr, now: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&address) else {
            return false;
        };
        let asked = match entry.state {
            State::Asking { tries } => tries > 0,
            State::Probing { mac: known, .. } => known == mac,
            State::Reachable(_) | State::Silent => false,
        };
        if asked {
            self.changed |= entry.state.mac() != Some(mac);
            entry.state = State::Reachable(mac);
            entry.due = now + REACHABLE;
            self.due = self.entries.values().map(|entry| entry.due).min();
        }
        asked
    }

    /// Returns whether this is the known address of a neighbour.
    pub(crate) fn is_known(&self, address: IpAddr, mac: MacAddr) -> bool {
        let entry = self.entries.get(&address);
        entry.and_then(|entry| entry.state.mac()) == Some(mac)
    }

    /// Asks whoever is due: `ask` receives the neighbour, and its known Ethernet address or `None` to ask all.
    pub(crate) fn poll(&mut self, now: u64, mut ask: impl FnMut(IpAddr, Option<MacAddr>)) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        let Self { entries, asks, changed, .. } = self;
        entries.retain(|address, entry| {
            if entry.due > now {
                return true;
            }
            let before = entry.state.mac();
            let kept = entry.advance(now);
            *changed |= before.is_some() && !(kept && entry.state.mac() == before);
            if kept && entry.is_question() {
                if entry.is_gateway || asks.take(now) {
                    ask(*address, entry.count_question(now));
                } else {
                    entry.due = now + DELAY;
                }
            }
            kept
        });
        self.due = self.entries.values().map(|entry| entry.due).min();
    }

    /// Returns the time of the next [`Neighbors::poll`] that does something.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.due
    }

    /// Returns the known neighbours in order of address, if they changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Option<Box<[(IpAddr, MacAddr)]>> {
        std::mem::take(&mut self.changed).then(|| {
            let known = |(address, entry): (&IpAddr, &Entry)| Some((*address, entry.state.mac()?));
            self.entries.iter().filter_map(known).collect()
        })
    }
}

impl Entry {
    /// Moves on to the state that follows when the time of this one has passed. Returns whether the entry is still needed.
    fn advance(&mut self, now: u64) -> bool {
        match self.state {
            State::Reachable(mac) => {
                let in_use = self.is_gateway || self.used + REACHABLE > now;
                self.state = State::Probing { mac, tries: 0 };
                in_use
            }
            State::Probing { tries, .. } if tries >= TRIES => {
                self.state = State::Asking { tries: 0 };
                true
            }
            State::Asking { tries } if tries >= TRIES => {
                self.state = State::Silent;
                self.due = now + SILENT;
                true
            }
            State::Silent => {
                self.state = State::Asking { tries: 0 };
                self.is_gateway
            }
            State::Asking { .. } | State::Probing { .. } => true,
        }
    }

    fn is_question(&self) -> bool {
        matches!(self.state, State::Asking { .. } | State::Probing { .. })
    }

    /// Counts a question and returns whom it goes to.
    fn count_question(&mut self, now: u64) -> Option<MacAddr> {
        self.due = now + RETRY;
        match &mut self.state {
            State::Asking { tries } => {
                *tries += 1;
                None
            }
            State::Probing { mac, tries } => {
                *tries += 1;
                Some(*mac)
            }
            State::Reachable(_) | State::Silent => None,
        }
    }
}
