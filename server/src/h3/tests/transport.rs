//! The pair's QUIC half: what both ends allow, and packets from one to the other.

use sluicegate_test_support::{Pair, config};

/// Packets of the initial window.
const INITIAL_WINDOW: usize = 10;

/// Returns a configuration with small windows.
fn transport() -> quiche::Config {
    let mut config = config(INITIAL_WINDOW);
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_local(64 << 10);
    config.set_initial_max_stream_data_bidi_remote(64 << 10);
    config.set_initial_max_stream_data_uni(64 << 10);
    config.set_initial_max_streams_bidi(500);
    config.set_initial_max_streams_uni(8);
    config
}

/// Passes all datagrams of one connection to the other, and returns whether there were any.
pub(super) fn carry(from: &mut quiche::Connection, to: &mut quiche::Connection) -> bool {
    let mut buffer = [0; 1500];
    let mut moved = false;
    while let Ok((count, info)) = from.send(&mut buffer) {
        moved = true;
        let info = quiche::RecvInfo { from: info.from, to: info.to };
        let _ = to.recv(&mut buffer[..count], info);
    }
    moved
}

/// Returns a client and a server that are connected.
pub(super) fn connected() -> (quiche::Connection, quiche::Connection) {
    connected_with_window(64 << 10)
}

/// Returns a client that takes at first so many bytes of each response, and a server that is connected to it.
pub(super) fn connected_with_window(window: u64) -> (quiche::Connection, quiche::Connection) {
    let mut near = transport();
    near.set_initial_max_stream_data_bidi_local(window);
    let Pair { client, server, .. } = Pair::connect(&mut near, &mut transport());
    (client, server)
}

/// Returns a client, and a server that is connected to it and receives so many bytes of all requests before it reads them.
pub(super) fn connected_to_window(window: u64) -> (quiche::Connection, quiche::Connection) {
    let mut far = transport();
    far.set_initial_max_data(window);
    let Pair { client, server, .. } = Pair::connect(&mut transport(), &mut far);
    (client, server)
}

/// Returns a client that resumes a session, and a server that has received its first packets and sent none.
pub(super) fn in_early_data() -> (quiche::Connection, quiche::Connection) {
    let (mut near, mut far) = (transport(), transport());
    near.enable_early_data();
    far.enable_early_data();
    let first = Pair::connect(&mut near, &mut far);
    let ticket = first.client.session().unwrap().to_vec();
    let Pair { mut client, mut server, .. } = Pair::new(&mut near, &mut far);
    client.set_session(&ticket).unwrap();
    carry(&mut client, &mut server);
    assert!(client.is_in_early_data() && server.is_in_early_data());
    (client, server)
}
