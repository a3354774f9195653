//! Admission of connections: what the server decides about each and counts. Time is the test's own.

use super::*;
use crate::congestion::selection::Selection;
use crate::testing::{Bench, Client, settings};

#[test]
fn connections_that_the_low_rtt_guard_moves_to_another_algorithm_are_counted() {
    let mut bench = Bench::new(settings(|s| {
        let text = "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
                    congestion_control = \"bbr3\"\nlow_rtt_guard = \"1ms\"\n";
        let registry = sluicegate_cc::Registry::builtin();
        let config = sluicegate_config::Config::from_toml("test.toml", text, &registry).unwrap();
        let selection = Selection::of(&config.listeners[0], &registry, [0; 32], None).unwrap();
        s.listeners.get_mut(&ListenerId(0)).unwrap().selection = selection;
    }));
    let near = "192.0.2.9".parse().unwrap();
    let listener = bench.endpoint.settings.listeners.get_mut(&ListenerId(0));
    let selection = &mut listener.unwrap().selection;
    let network = selection.learn(near, Duration::from_micros(100), bench.now);
    assert!(network.is_some());
    for (address, guarded) in
        [("192.0.2.1:5000", 1), ("198.51.100.1:5000", 1), ("192.0.2.2:5000", 2)]
    {
        Client::new(address).speak(&mut bench.endpoint, bench.now);
        assert_eq!(bench.endpoint.counters.guarded, guarded, "{address}");
    }
    let counters = &bench.endpoint.counters;
    assert_eq!((counters.accepted, counters.by_algorithm["bbr3"]), (3, 1));
}
