//! Checks of servers by connections over TCP.

use std::net::SocketAddr;
use std::time::Instant;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::health::Health;
use crate::poller::{EventSource, SocketPoller};
use crate::pool::{Server, ServerKey};
use crate::settings::HealthSettings;

/// Checks of all servers that have an address for them.
pub(crate) struct Probes {
    settings: HealthSettings,
    probes: Vec<Probe>,
    next_number: u32,
}

/// Checks of a server.
struct Probe {
    server: ServerKey,
    name: String,
    address: SocketAddr,
    health: Health,
    /// Time of the next check.
    next: Instant,
    attempt: Option<Attempt>,
}

/// A connection that is not established yet.
struct Attempt {
    socket: Socket,
    number: u32,
    deadline: Instant,
}

/// A server that is up or down now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealthChange {
    pub(crate) server: ServerKey,
    pub(crate) is_up: bool,
}

impl Probes {
    pub(crate) fn new(settings: HealthSettings) -> Probes {
        Probes { settings, probes: Vec::new(), next_number: 0 }
    }

    /// Checks these servers from now on. Those that were checked before keep their health.
    pub(crate) fn adopt(&mut self, settings: HealthSettings, servers: &[Server], now: Instant) {
        self.settings = settings;
        let mut former = std::mem::take(&mut self.probes);
        for server in servers {
            let Some(address) = server.health else { continue };
            let is_same = |probe: &Probe| probe.server == server.key && probe.address == address;
            let known = former.iter().position(is_same).map(|place| former.swap_remove(place));
            self.probes.push(match known {
                // It stands at another place, which its events do not know.
                Some(known) => Probe { attempt: None, next: now, ..known },
                None => Probe {
                    server: server.key,
                    name: server.name.clone(),
                    address,
                    health: Health::new(),
                    next: now,
                    attempt: None,
                },
            });
        }
    }

    /// Returns the time at which something must be done.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let due = |probe: &Probe| match &probe.attempt {
            Some(attempt) => attempt.deadline,
            None => probe.next,
        };
        self.probes.iter().map(due).min()
    }

    /// Begins the checks that are due, and ends those that take too long.
    pub(crate) fn on_time(&mut self, poller: &SocketPoller, now: Instant) -> Vec<HealthChange> {
        let mut changes = Vec::new();
        for (place, probe) in (0..).zip(&mut self.probes) {
            let outcome = match &probe.attempt {
                Some(attempt) if attempt.deadline <= now => {
                    let after = self.settings.timeout;
                    Some(Err(format!("no connection within {after:?}")))
                }
                Some(_) => None,
                None if probe.next > now => None,
                None => {
                    probe.next = now + self.settings.interval;
                    self.next_number = self.next_number.wrapping_add(1);
                    let number = self.next_number;
                    match begin(probe.address, poller, EventSource::Probe(place, number)) {
                        Ok(Some(socket)) => {
                            let deadline = now + self.settings.timeout;
                            probe.attempt = Some(Attempt { socket, number, deadline });
                            None
                        }
                        Ok(None) => Some(Ok(())),
                        Err(error) if is_local(&error) => {
                            tracing::debug!(server = probe.name, %error, "a check had no socket");
                            None
                        }
                        Err(error) => Some(Err(error.to_string())),
                    }
                }
            };
            changes.extend(outcome.and_then(|outcome| probe.on_outcome(outcome, &self.settings)));
        }
        changes
    }

    /// Ends the check with an event.
    pub(crate) fn on_event(&mut self, place: u32, number: u32) -> Option<HealthChange> {
        let probe = self.probes.get_mut(usize::try_from(place).ok()?)?;
        let attempt = probe.attempt.as_ref().filter(|attempt| attempt.number == number)?;
        let outcome = match attempt.socket.take_error() {
            Ok(None) => Ok(()),
            Ok(Some(error)) | Err(error) => Err(error.to_string()),
        };
        probe.on_outcome(outcome, &self.settings)
    }
}

impl Probe {
    fn on_outcome(
        &mut self,
        outcome: Result<(), String>,
        settings: &HealthSettings,
    ) -> Option<HealthChange> {
        self.attempt = None;
        let is_up = self.health.on_check(outcome.is_ok(), settings)?;
        let (server, health) = (&self.name, self.address);
        match outcome {
            Ok(()) => tracing::info!(server, %health, "the server is up, and gets new clients"),
            Err(error) => {
                tracing::warn!(server, %health, error, "the server is down, and gets no new clients");
            }
        }
        Some(HealthChange { server: self.server, is_up })
    }
}

/// Returns whether an error is one of this host, which says nothing of a server.
fn is_local(error: &std::io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL)
    )
}

/// Begins to connect. Returns `None` if that is done at once.
fn begin(
    address: SocketAddr,
    poller: &SocketPoller,
    source: EventSource,
) -> std::io::Result<Option<Socket>> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => Ok(None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {
            poller.add_writable(&socket, source)?;
            Ok(Some(socket))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_host_lacks_is_no_failure_of_a_server() {
        let is_local = |errno: Errno| is_local(&errno.into());
        assert!(
            [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::ADDRNOTAVAIL].map(is_local)
                == [true; 4]
        );
        assert!(
            [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::TIMEDOUT].map(is_local) == [false; 3]
        );
    }
}
