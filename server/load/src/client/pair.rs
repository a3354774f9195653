//! A client and a server of a test in the same thread.

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use sluicegate_cc::Registry;

use super::LoadClient;
use super::connector::Connector;
use super::transport::ConnectOptions;
use crate::context::{Context, Line};
use crate::end::End;
use crate::options;
use crate::plan::Plan;
use crate::request::Work;

/// Turns in which everything that a test waits for comes about, if it ever does.
const MAX_TURNS: usize = 1_000_000;

/// A server of one connection.
pub(super) trait Peer {
    /// Scheme of its URL.
    const SCHEME: &str;

    fn address(&self) -> SocketAddr;

    /// Reads the clock of both sides.
    fn clock() -> Instant;

    /// Lets some time pass, if the clock does not go by itself.
    fn advance() {}

    /// Does what it can.
    fn turn(&mut self, now: Instant);

    /// Returns the plan of a client with these options.
    fn plan(&self, words: &str) -> Plan {
        let url = format!("{}://{}/", Self::SCHEME, self.address());
        let words: Vec<_> = words.split_whitespace().chain([&*url]).collect();
        Plan::new(&options::parse(&words).unwrap()).unwrap()
    }
}

/// The two sides.
pub(super) struct Pair<'a, P> {
    pub(super) server: P,
    pub(super) client: LoadClient,
    connector: Connector,
    pub(super) cx: Context<'a>,
    /// Lines for the user.
    pub(super) lines: Receiver<Line>,
    /// End of the client.
    pub(super) end: Option<End>,
}

impl<'a, P: Peer> Pair<'a, P> {
    /// Returns the two sides before their first turn. The client has `left` requests to send.
    pub(super) fn open(server: P, plan: &'a Plan, left: u64) -> Self {
        let (sender, lines) = channel();
        let mut cx = Context::new(plan, None, sender, P::clock).unwrap();
        cx.counted_from = Some(cx.now);
        cx.reports = true;
        let mut connector = Connector::new(plan, &Registry::builtin()).unwrap();
        let client = client(&mut connector, &work(plan, left), &mut cx);
        Pair { server, client, connector, cx, lines, end: None }
    }

    /// Replaces the client, which has ended, by another one of the same thread with `left` requests to send.
    pub(super) fn reopen(&mut self, left: u64) {
        let work = work(self.cx.plan, left);
        let next = client(&mut self.connector, &work, &mut self.cx);
        std::mem::replace(&mut self.client, next).leave(false, &mut self.cx);
        self.end = None;
    }

    /// Lets some time pass and each side do what it can.
    pub(super) fn turn(&mut self) {
        let cx = &mut self.cx;
        P::advance();
        cx.tick();
        self.server.turn(cx.now);
        let due = self.client.deadline(cx).is_some_and(|at| at <= cx.now);
        let mut end = due.then(|| self.client.on_timer(cx)).flatten();
        end = end.or_else(|| self.client.receive(cx).err());
        end = end.or_else(|| self.client.service(cx));
        self.end = self.end.take().or(end);
    }

    pub(super) fn until(&mut self, reached: impl Fn(&Self) -> bool) {
        for _ in 0..MAX_TURNS {
            if reached(self) {
                return;
            }
            self.turn();
        }
        panic!("it never comes about; the client ended: {:?}", self.end);
    }

    pub(super) fn until_end(&mut self) -> End {
        self.until(|pair| pair.end.is_some());
        self.end.clone().unwrap()
    }

    /// Lets the client end because the server takes no more of its requests. Checks how many have succeeded and failed, and how many
    /// it leaves to another connection: new ones, and ones to send again.
    pub(super) fn leaves_requests(&mut self, ended: (u64, u64), left: (u64, usize)) {
        assert_eq!(self.until_end(), End::GoneAway);
        let tally = &self.cx.tally;
        assert_eq!((tally.succeeded, tally.errored), ended);
        let work = self.client.work();
        assert_eq!((work.new, work.again.len()), left);
    }

    /// Lets the client end, and checks that it names a cause with this part.
    pub(super) fn failed_with(&mut self, part: &str) {
        let end = self.until_end();
        let End::Failed(cause) = &end else {
            panic!("{end:?}");
        };
        assert!(cause.contains(part), "{cause}");
    }
}

fn work(plan: &Plan, left: u64) -> Work {
    Work { pace: plan.pace(), new: left, ..Work::default() }
}

fn client(connector: &mut Connector, work: &Work, cx: &mut Context<'_>) -> LoadClient {
    let options = ConnectOptions { address: 0, local: None, trace: None };
    connector.open(options, work, cx).unwrap()
}
