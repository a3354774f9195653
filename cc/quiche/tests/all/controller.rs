//! Reports that a controller gets from quiche, and statistics that quiche gives of it.

use std::cell::RefCell;

use sluicegate_cc::{Algorithm, Controller, Event, Init, Layer, Options, PacketState, Sent, Time};
use sluicegate_test_support::{built_by, builtin, config, emit, set_algorithm, Pair};

/// Numbers of the packets that the server's controller saw sent, acknowledged and lost.
#[derive(Debug, Default)]
struct Seen {
    sent: Vec<u64>,
    acked: Vec<u64>,
    lost: Vec<u64>,
}

thread_local!(static SEEN: RefCell<Seen> = RefCell::default());

/// Gives every packet a state that names it, and checks that it comes back.
#[derive(Debug)]
struct Marking(Box<dyn Controller>);

impl Layer for Marking {
    fn inner(&self) -> &dyn Controller {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.0
    }

    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.0.on_sent(now, sent);
        SEEN.with_borrow_mut(|seen| seen.sent.push(sent.packet_number));
        PacketState {
            delivered: sent.packet_number + 1,
            first_sent_time: now,
            ..PacketState::default()
        }
    }

    fn on_event(&mut self, event: &Event<'_>) {
        self.0.on_event(event);
        for packet in event.acked.iter().chain(event.lost) {
            assert!(packet.bytes > 0);
            assert_eq!(packet.state.delivered, packet.packet_number + 1);
            assert_eq!(packet.state.first_sent_time, packet.time_sent);
        }
        SEEN.with_borrow_mut(|seen| {
            seen.acked.extend(event.acked.iter().map(|p| p.packet_number));
            seen.lost.extend(event.lost.iter().map(|p| p.packet_number));
        });
    }
}

fn marking(init: &Init, options: &Options) -> Box<dyn Controller> {
    Box::new(Marking((builtin("reno").build)(init, options)))
}

/// Connects with a controller on the server's side, and lets the server send `len` bytes and lose every 20th packet.
fn download(algorithm: Algorithm, len: usize) -> Pair {
    let (mut client, mut server) = (config(1000), config(1000));
    set_algorithm(&mut server, algorithm);
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.client.stream_send(0, b"?", true).expect("request");
    pair.settle();
    let body = vec![7; len];
    let (mut written, mut read, mut carried) = (0, 0, 0);
    while read < len {
        if let Ok(taken) = pair.server.stream_send(0, &body[written..], true) {
            written += taken;
        }
        let sent = emit(&mut pair.server);
        read += pair.carry(&sent, &mut carried, 20);
    }
    pair
}

#[test]
fn packet_state_returns_with_the_acknowledged_or_lost_packet() {
    download(built_by("reno", marking), 500_000);
    let seen = SEEN.take();
    assert!(seen.sent.len() > 400, "{} packets", seen.sent.len());
    assert!(seen.lost.len() >= 10, "{} lost", seen.lost.len());
    assert!(seen.acked.len() > 300, "{} acknowledged", seen.acked.len());
}

#[test]
fn delivery_rate_is_the_samplers_or_none() {
    for (name, has_model) in [("reno", false), ("cubic", false), ("bbr3", true)] {
        let pair = download(builtin(name), 500_000);
        let path = pair.server.path_stats().next().expect("a path");
        assert_eq!(path.delivery_rate > 0, has_model, "{name}");
        assert_eq!(path.max_bandwidth.is_some(), has_model, "{name}");
    }
}
