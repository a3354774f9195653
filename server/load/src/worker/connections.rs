//! Opens the connections of a thread, and replaces those that end early.

use std::net::IpAddr;

use anyhow::{Context as _, anyhow};

use super::Worker;
use crate::client::transport::ConnectOptions;
use crate::context::Line;
use crate::end::End;
use crate::outputs;
use crate::request::Work;

/// Connections opened before the sockets have their turn again.
const OPEN_PER_TURN: u64 = 16;

impl Worker<'_> {
    /// Returns how many connections are to be opened now.
    pub(super) fn to_open(&self) -> u64 {
        let options = &self.cx.plan.options;
        let most = self.share.clients;
        let due = self.share.rate.map_or(most, |rate| {
            let elapsed = self.cx.now.saturating_duration_since(self.begin);
            let periods = elapsed.as_nanos() / options.rate_period.as_nanos().max(1);
            let due = (periods + 1).saturating_mul(u128::from(rate));
            u64::try_from(due).unwrap_or(u64::MAX)
        });
        due.min(most).saturating_sub(self.opened())
    }

    /// Opens the connections that are due, a few at a time.
    pub(super) fn open_due(&mut self) {
        for _ in 0..self.to_open().min(OPEN_PER_TURN) {
            // The one before it took its time, for TLS.
            self.cx.tick();
            let slot = self.clients.len();
            let left = self.share.requests.map_or(u64::MAX, |requests| {
                let (each, rest) = (requests / self.share.clients, requests % self.share.clients);
                each + u64::from((slot as u64) < rest)
            });
            self.clients.push(None);
            self.armed.push(None);
            self.is_free.push(false);
            let work = Work { pace: self.cx.plan.pace(), new: left, ..Work::default() };
            self.open(slot, &work);
            self.report_opened();
        }
    }

    fn report_opened(&self) {
        let (opened, clients) = (self.opened(), self.share.clients);
        let shown = self.cx.reports && self.share.rate.is_some();
        if shown && opened.is_multiple_of((clients / 10).max(1)) {
            let percent = opened * 100 / clients;
            let line = format!("progress: {percent}% of clients started");
            self.cx.say(Line::Report(line));
        }
    }

    /// Opens connection number `slot`, which has `work` to do.
    fn open(&mut self, slot: usize, work: &Work) {
        let base = self.cx.plan.options.qlog_file_base.as_deref();
        let trace = base.map(|base| outputs::trace(base, self.share.thread, slot));
        // There may be no route to the first address of a name, as to an IPv6 address from a host that has IPv4 alone.
        let mut opened = Err(anyhow!("no address is left"));
        for address in self.address..self.cx.plan.addresses.len() {
            let options = ConnectOptions {
                address,
                local: self.local_ip(slot, address),
                trace: trace.as_deref(),
            };
            opened = self.connector.open(options, work, &mut self.cx);
            if opened.is_ok() {
                self.address = address;
                break;
            }
        }
        let watched = opened.and_then(|client| {
            self.alive += 1;
            let watched = self.poller.add(&client, slot, client.watch());
            self.clients[slot] = Some(client);
            watched.context("cannot watch a socket")
        });
        match watched {
            Ok(()) => self.service(slot),
            Err(error) => {
                if self.clients[slot].is_none() {
                    let starts: Vec<_> = work.again.iter().map(|request| request.start).collect();
                    self.cx.abandon(&starts);
                }
                self.end(slot, End::Failed(format!("cannot connect: {error:#}")));
            }
        }
    }

    /// Returns the own address of connection number `slot`, if addresses were given.
    fn local_ip(&self, slot: usize, address: usize) -> Option<IpAddr> {
        let plan = self.cx.plan;
        let ips = plan.options.local_ips.as_ref()?;
        let index = slot as u64 * plan.options.threads + self.share.thread;
        ips.of(index, plan.addresses[address].ip())
    }

    /// Ends a connection, and opens another one in its place where that helps.
    pub(super) fn end(&mut self, slot: usize, end: End) {
        self.disarm(slot);
        let mut again = None;
        let mut failed = !matches!(end, End::Done | End::GoneAway);
        if let Some(mut client) = self.clients[slot].take() {
            self.alive -= 1;
            let next_address = client.address + 1;
            match end {
                End::GoneAway => again = Some(client.take_work()),
                End::Unreachable(_) if next_address < self.cx.plan.addresses.len() => {
                    self.address = self.address.max(next_address);
                    again = Some(client.take_work());
                    failed = false;
                }
                _ => {}
            }
            let abandoned = client.leave(failed, &mut self.cx);
            if end == End::TimedOut {
                self.cx.tally.timed_out += abandoned;
            }
        }
        if failed {
            let cause = match end {
                End::TimedOut => "closed by -T or -N".to_owned(),
                End::Failed(cause) | End::Unreachable(cause) => cause,
                End::Done | End::GoneAway => return,
            };
            self.cx.note(|| cause.clone());
            self.cx.tally.fail(cause, 1);
        }
        if let Some(work) = again {
            self.open(slot, &work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use sluicegate_cc::Registry;

    use super::*;
    use crate::barrier::StartBarrier;
    use crate::client::connector::Connector;
    use crate::context::Context;
    use crate::options;
    use crate::plan::Plan;
    use crate::worker::Share;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any time will do")]
    fn the_next_address_is_tried_where_no_socket_can_be_connected() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/", server.local_addr().unwrap());
        let mut plan = Plan::new(&options::parse(&[&url]).unwrap()).unwrap();
        // Linux refuses broadcasts that a socket has not asked for (EACCES).
        let broadcast = "255.255.255.255:443".parse().unwrap();
        plan.addresses.insert(0, broadcast);
        let (lines, _received) = channel();
        let cx = Context::new(&plan, None, lines, Instant::now).unwrap();
        let connector = Connector::new(&plan, &Registry::builtin()).unwrap();
        let barrier = StartBarrier::new(1, Instant::now);
        let stop = AtomicBool::new(false);
        let share = Share { thread: 0, clients: 1, requests: Some(1), rate: None };
        let arrival = barrier.arrival();
        let mut worker = Worker::new(cx, connector, share, &stop, arrival).unwrap();
        worker.open_due();
        assert_eq!((worker.alive, worker.address), (1, 1));
        assert!(worker.cx.tally.failures.is_empty());
    }
}
