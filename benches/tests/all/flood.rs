//! Established connections keep their goodput, whatever strangers send and whichever socket is full.

use sluicegate_benches::virtual_net::{Flood, goodput_under};

/// Runs the flood, and checks that connections keep four fifths of their bytes per turn. Returns the number of stateless packets.
fn check(flood: Flood) -> u64 {
    let goodput = goodput_under(flood).expect("both ends can be set up");
    println!("{flood:?}: {goodput:?}");
    // The turns' budget limits the connections, not their windows: a megabyte in each of 40 turns, for half of them at least.
    assert!(goodput.before > 10_000_000, "{goodput:?}");
    assert!(goodput.after * 5 >= goodput.before * 4, "{goodput:?}");
    goodput.stateless_packets
}

#[test]
fn initials_without_token_leave_connections_their_goodput() {
    assert!(check(Flood::Initials) > 100);
}

#[test]
fn unknown_versions_leave_connections_their_goodput() {
    assert!(check(Flood::UnknownVersions) > 100);
}

#[test]
fn full_socket_leaves_connections_of_others_their_goodput() {
    assert_eq!(check(Flood::FullSocket), 0);
}
