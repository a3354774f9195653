//! A connection over a path that may change marks.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use quiche::{Connection, Ecn, EcnStats, Error, RecvInfo};
use sluicegate_cc::{Algorithm, Controller, EcnCounts, Event, Init, Layer, Options};
use sluicegate_test_support::{built_by, builtin, client_address, config, set_algorithm, Pair};

/// Window of both sides, in packets.
pub(crate) const WINDOW: usize = 100;
pub(crate) const STEP: Duration = Duration::from_millis(20);

thread_local! {
    /// Counts of the events so far.
    pub(crate) static COUNTED: RefCell<Vec<EcnCounts>> = RefCell::default();
}

/// Notes the counts of each event.
#[derive(Debug)]
pub(crate) struct Watched(Box<dyn Controller>);

impl Layer for Watched {
    fn inner(&self) -> &dyn Controller {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.0
    }

    fn on_event(&mut self, event: &Event<'_>) {
        if event.ecn != EcnCounts::NONE {
            COUNTED.with_borrow_mut(|counted| counted.push(event.ecn));
        }
        self.0.on_event(event);
    }
}

pub(crate) fn watched(init: &Init, options: &Options) -> Box<dyn Controller> {
    Box::new(Watched((builtin("reno").build)(init, options)))
}

/// A datagram, and the mark that it left with.
pub(crate) type Marked = (Vec<u8>, RecvInfo, Ecn);

/// Returns every datagram that a side sends now.
pub(crate) fn emit(side: &mut Connection) -> Vec<Marked> {
    let mut sent = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match side.send(&mut buffer) {
            Ok((len, info)) => {
                let (from, to) = (info.from, info.to);
                sent.push((buffer[..len].to_vec(), RecvInfo { from, to }, info.ecn));
            }
            Err(Error::Done) => return sent,
            Err(error) => panic!("send: {error}"),
        }
    }
}

pub(crate) fn deliver(side: &mut Connection, (datagram, info, mark): &Marked) {
    let received = side.recv_with_ecn(&mut datagram.clone(), *info, *mark);
    received.expect("a packet that the other side has sent");
}

/// A server that marks its packets, a client that does not, and a path that changes the server's marks.
pub(crate) struct Test {
    pub(crate) pair: Pair,
    /// Changes the mark of a datagram; `None` drops it.
    pub(crate) path: fn(usize, Ecn) -> Option<Ecn>,
    /// Datagrams that the server has sent, and how many of them were marked.
    pub(crate) sent: usize,
    pub(crate) marked: usize,
}

impl Test {
    /// Connects over a path.
    pub(crate) fn over(path: fn(usize, Ecn) -> Option<Ecn>) -> Test {
        Test::begun(true, path).settled()
    }

    pub(crate) fn begun(enabled: bool, path: fn(usize, Ecn) -> Option<Ecn>) -> Test {
        Test::begun_with(built_by("reno", watched), enabled, path)
    }

    /// Connects over a path with an algorithm whose response to marks is scalable.
    pub(crate) fn scalable_over(path: fn(usize, Ecn) -> Option<Ecn>) -> Test {
        let scalable = Algorithm { scalable: true, ..built_by("reno", watched) };
        Test::begun_with(scalable, true, path).settled()
    }

    fn begun_with(
        algorithm: Algorithm,
        enabled: bool,
        path: fn(usize, Ecn) -> Option<Ecn>,
    ) -> Test {
        let (mut client, mut server) = (config(WINDOW), config(WINDOW));
        set_algorithm(&mut server, algorithm);
        server.enable_ecn(enabled);
        COUNTED.take();
        Test { pair: Pair::new(&mut client, &mut server), path, sent: 0, marked: 0 }
    }

    /// Exchanges packets until both sides have nothing to send.
    pub(crate) fn settled(mut self) -> Test {
        self.settle();
        assert!(self.pair.client.is_established() && self.pair.server.is_established());
        self
    }

    pub(crate) fn settle(&mut self) {
        loop {
            let requests = emit(&mut self.pair.client);
            let requests_sent = requests.len();
            for (datagram, info, mark) in requests {
                let info = RecvInfo { from: self.pair.client_at, ..info };
                deliver(&mut self.pair.server, &(datagram, info, mark));
            }
            if self.deliver_replies() + requests_sent == 0 {
                return;
            }
        }
    }

    /// Delivers what the server sends now. Returns how many datagrams that were.
    pub(crate) fn deliver_replies(&mut self) -> usize {
        let replies = emit(&mut self.pair.server);
        for (datagram, info, mark) in &replies {
            if let Some(mark) = (self.path)(self.sent, *mark) {
                let info = RecvInfo { to: client_address(), ..*info };
                deliver(&mut self.pair.client, &(datagram.clone(), info, mark));
            }
            self.sent += 1;
            self.marked += usize::from(*mark != Ecn::NotCapable);
        }
        replies.len()
    }

    /// Gives the client another address.
    pub(crate) fn move_to(&mut self, address: SocketAddr) {
        self.pair.client_at = address;
        self.pair.client.send_ack_eliciting().expect("an established connection");
        self.settle();
        let mut paths = self.pair.server.path_stats();
        assert!(paths.any(|path| path.active && path.peer_addr == address));
    }

    /// The server sends that many packets' worth of data, which takes a round trip.
    pub(crate) fn round(&mut self, packets: usize) {
        let data = vec![7; packets * 1000];
        let written = self.pair.server.stream_send(1, &data, false);
        assert_eq!(written, Ok(data.len()));
        self.deliver_replies();
        self.pair.pass(STEP);
        self.settle();
    }

    pub(crate) fn stats(&self) -> EcnStats {
        self.pair.server.ecn_stats()
    }

    pub(crate) fn window(&self) -> usize {
        let path = self.pair.server.path_stats().next();
        path.expect("a path").cwnd
    }

    /// Returns whether the server marks what it sends now.
    pub(crate) fn marks(&mut self) -> bool {
        let before = self.marked;
        self.round(1);
        self.marked > before
    }
}

pub(crate) fn kept(_: usize, mark: Ecn) -> Option<Ecn> {
    Some(mark)
}

/// Returns a mark as it leaves a router with congestion.
pub(crate) fn congested(mark: Ecn) -> Ecn {
    match mark {
        Ecn::NotCapable => mark,
        _ => Ecn::CongestionExperienced,
    }
}
