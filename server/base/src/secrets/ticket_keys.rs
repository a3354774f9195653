//! Keys of session tickets (RFC 8446 §4.6.1): one for each listener and period of time.
//!
//! A period lasts as long as a ticket is valid, so tickets of the current and of the previous period are accepted. Keys of the
//! next period are accepted, too, because the clock of an instance that shares the secrets may be ahead.
//!
//! If instances share root secrets, a period's keys derive from the root and the period's number. Otherwise the seed of a period
//! derives from that of the previous one, which is then forgotten: whoever steals the seed opens no tickets of the past. Processes
//! that began with the same seed derive the same ones without talking to each other.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::root::{RootSecret, unhex};

/// Length of a period until [`TicketKeys::set_lifetime`] says otherwise, in seconds.
const DEFAULT_PERIOD: u64 = 86_400;
/// Largest number of seeds that are derived one by one, after the clock was set forward.
const MAX_STEPS: u64 = 1024;

/// Key of the tickets of one listener and period.
pub struct TicketKey {
    /// Identifies the key in its tickets.
    pub name: [u8; 16],
    /// Key of HMAC-SHA256.
    pub mac: [u8; 32],
    /// Key of AES-256.
    pub cipher: [u8; 32],
}

/// The ticket keys of the process, which all workers share. The lock is taken once or twice in a handshake, and no key of a
/// shared root is derived under it.
pub struct TicketKeys {
    state: Mutex<State>,
    /// Returns the time since 1970.
    unix: Box<dyn Fn() -> Duration + Send + Sync>,
}

struct State {
    /// Length of a period, in seconds; at least 1.
    period: u64,
    source: Source,
}

enum Source {
    /// Root secrets that instances share, the current one first.
    Shared(Arc<[RootSecret]>),
    /// Seeds of this state directory or process.
    Own(Chain),
}

/// Seed of a period, from which those of all later periods derive.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Chain {
    number: u64,
    seed: RootSecret,
}

impl Chain {
    /// Forgets the seeds of periods before `number`.
    fn advance(&mut self, number: u64) {
        let steps = number.saturating_sub(self.number);
        if steps > MAX_STEPS {
            self.seed = self.seed.child(b"jump", &[number]);
            self.number = number;
        }
        while self.number < number {
            self.seed = self.seed.child(b"next", &[]);
            self.number += 1;
        }
    }
}

impl TicketKeys {
    /// Returns keys that derive from root secrets which instances share, the current one first. `unix` returns the time since 1970.
    pub(super) fn shared(
        roots: Vec<RootSecret>,
        unix: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> TicketKeys {
        TicketKeys {
            state: Mutex::new(State {
                period: DEFAULT_PERIOD,
                source: Source::Shared(roots.into()),
            }),
            unix: Box::new(unix),
        }
    }

    /// Returns keys of a random seed.
    pub(super) fn random(unix: impl Fn() -> Duration + Send + Sync + 'static) -> TicketKeys {
        let number = (unix().as_secs() / DEFAULT_PERIOD).saturating_sub(1);
        let seed = RootSecret::random();
        TicketKeys {
            state: Mutex::new(State {
                period: DEFAULT_PERIOD,
                source: Source::Own(Chain { number, seed }),
            }),
            unix: Box::new(unix),
        }
    }

    /// Returns the keys that [`TicketKeys::text`] wrote, or `None` if it did not write `text` or if all tickets have expired since.
    pub(super) fn parse(
        text: &str,
        unix: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Option<TicketKeys> {
        let mut words = text.split_whitespace();
        let mut number = || words.next()?.parse::<u64>().ok();
        let (period, number) = (number()?, number()?);
        let seed = unhex(words.next()?).ok()?;
        let now = unix().as_secs().checked_div(period)?;
        // A clock that was ahead would keep the seed from being replaced.
        if now > number.saturating_add(3) || number > now + 1 || words.next().is_some() {
            return None;
        }
        Some(TicketKeys {
            state: Mutex::new(State { period, source: Source::Own(Chain { number, seed }) }),
            unix: Box::new(unix),
        })
    }

    /// Returns the seed as the state directory keeps it, without those of the past; `None` if roots are shared.
    pub(super) fn text(&self) -> Option<String> {
        let now = (self.unix)().as_secs();
        let mut state = self.state();
        let period = state.period;
        match &mut state.source {
            Source::Shared(_) => None,
            Source::Own(chain) => {
                chain.advance((now / period).saturating_sub(1));
                let seed = HEXLOWER.encode(&chain.seed.0);
                Some(format!("{period} {} {seed}\n", chain.number))
            }
        }
    }

    /// Replaces the roots that instances share. Tickets of those that are still among them stay valid.
    pub(super) fn set_roots(&self, roots: &[RootSecret]) {
        if let Source::Shared(before) = &mut self.state().source {
            *before = roots.into();
        }
    }

    /// Sets how long a ticket is valid. If that differs from before, tickets of a state directory or a process are refused from now
    /// on.
    pub fn set_lifetime(&self, lifetime: Duration) {
        let period = lifetime.as_secs().max(1);
        let now = (self.unix)().as_secs();
        let mut state = self.state();
        let before = std::mem::replace(&mut state.period, period);
        if let Source::Own(chain) = &mut state.source
            && before != period
        {
            chain.advance((now / before).saturating_sub(1));
            chain.seed = chain.seed.child(b"lifetime", &[period]);
            chain.number = (now / period).saturating_sub(1);
        }
    }

    /// Returns the key that seals new tickets of `listener`.
    pub fn sealing(&self, listener: &str) -> TicketKey {
        let now = (self.unix)().as_secs();
        let mut state = self.state();
        let period = state.period;
        let number = now / period;
        let seeds = state.seeds(number);
        drop(state);
        key(&seeds[0], listener, number, period)
    }

    /// Returns the key of `listener` with that name; `None` if it is not, or no longer, accepted.
    pub fn opening(&self, listener: &str, name: &[u8; 16]) -> Option<TicketKey> {
        let now = (self.unix)().as_secs();
        let mut state = self.state();
        let period = state.period;
        let current = now / period;
        let accepted = [current, current.saturating_sub(1), current + 1];
        // The first byte of a name is that of its period's number.
        let mut accepted = accepted.into_iter();
        let number = accepted.find(|number| number.to_be_bytes()[7] == name[0])?;
        let seeds = state.seeds(number);
        drop(state);
        let mut keys = seeds.iter().map(|seed| key(seed, listener, number, period));
        keys.find(|key| key.name == *name)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the seeds of a period's keys, the current root's first. Keys are derived from them without the lock.
    fn seeds(&mut self, number: u64) -> Arc<[RootSecret]> {
        match &mut self.source {
            Source::Shared(roots) => Arc::clone(roots),
            Source::Own(chain) => {
                // One period back is accepted, and the next one may be asked for.
                chain.advance(number.saturating_sub(2));
                let mut of_period = chain.clone();
                of_period.advance(number);
                Arc::new([of_period.seed])
            }
        }
    }
}

fn key(seed: &RootSecret, listener: &str, number: u64, period: u64) -> TicketKey {
    #[cfg(test)]
    tests::DERIVED.set(tests::DERIVED.get() + 1);
    let mut info = Vec::with_capacity(64);
    info.extend_from_slice(&number.to_be_bytes());
    info.extend_from_slice(&period.to_be_bytes());
    info.extend_from_slice(listener.as_bytes());
    let [name, mac, cipher] = seed.ticket_key(&info);
    let mut short = [0; 16];
    short.copy_from_slice(&name[..16]);
    short[0] = number.to_be_bytes()[7];
    TicketKey { name: short, mac, cipher }
}

/// Omits the keys.
impl fmt::Debug for TicketKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
