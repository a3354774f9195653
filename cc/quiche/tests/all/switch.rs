//! Another congestion controller for a running connection.

use quiche::cc::Factory;
use quiche::PathStats;
use sluicegate_cc::Registry;
use sluicegate_test_support::{builtin, config, emit, set_algorithm, Pair};

/// Bytes of the download.
const LENGTH: usize = 2_000_000;

fn path(pair: &Pair) -> PathStats {
    pair.server.path_stats().next().expect("a path")
}

/// Downloads with one algorithm until half of it has come, and with the other one from then on, over a path of 40 ms that loses a
/// packet of 200. The switch falls into a flight.
fn download(from: &str, to: &str) {
    let mut server = config(10);
    server.enable_pacing(true);
    set_algorithm(&mut server, builtin(from));
    let mut pair = Pair::connect(&mut config(100), &mut server);
    pair.client.stream_send(0, b"?", true).expect("request");
    pair.settle();
    let (mut written, mut read, mut carried, mut switched) = (0, 0, 0, false);
    for _ in 0..1_000 {
        if let Ok(taken) = pair.server.stream_send(0, &vec![7; LENGTH - written], true) {
            written += taken;
        }
        let sent = emit(&mut pair.server);
        if !switched && read > LENGTH / 2 {
            switched = true;
            let before = path(&pair);
            let next = builtin(to);
            assert!(pair.server.switch_controller(Factory::new(next, next.defaults())));
            let after = path(&pair);
            assert!(after.cwnd <= before.cwnd.max(4 * 1200), "{} to {}", before.cwnd, after.cwnd);
            assert_eq!(after.rtt, before.rtt);
        }
        read += pair.carry(&sent, &mut carried, 200);
        if read == LENGTH {
            assert!(switched);
            return;
        }
    }
    panic!("{from} to {to}: {read} of {LENGTH} bytes");
}

#[test]
fn download_goes_on_with_another_controller() {
    let registry = Registry::builtin();
    for from in registry.names() {
        for to in registry.names() {
            download(from, to);
        }
    }
}

/// A controller of quiche's own cannot be replaced, nor can one in a handshake.
#[test]
fn other_controllers_stay() {
    let reno = || Factory::new(builtin("reno"), builtin("reno").defaults());
    let mut pair = Pair::connect(&mut config(10), &mut config(10));
    assert!(!pair.server.switch_controller(reno()));
    let mut server = config(10);
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::new(&mut config(10), &mut server);
    assert!(!pair.server.switch_controller(reno()));
}
