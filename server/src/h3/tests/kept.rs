//! State that quiche keeps after a request has ended.

use quiche::Shutdown;
use quiche::h3::{Connection, Event, Header};

use super::transport::{carry, connected};

/// Far fewer than the requests, and more than are open at a time.
const KEPT: usize = 200;

#[test]
fn cancelled_requests_leave_no_state_in_quiche() {
    let (mut client, mut server) = connected();
    let config = quiche::h3::Config::new().unwrap();
    let mut near = Connection::with_transport(&mut client, &config).unwrap();
    let mut far = Connection::with_transport(&mut server, &config).unwrap();
    let head = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
    let head = head.map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes()));
    let mut cancelled = 0;
    for _ in 0..1000 {
        let stream = near.send_request(&mut client, &head, false).unwrap();
        carry(&mut client, &mut server);
        client.stream_shutdown(stream, Shutdown::Write, 0x10c).unwrap();
        carry(&mut client, &mut server);
        while let Ok((stream, event)) = far.poll(&mut server) {
            if matches!(event, Event::Reset(_)) {
                cancelled += 1;
                let _ = server.stream_shutdown(stream, Shutdown::Write, 0x10c);
            }
        }
        carry(&mut server, &mut client);
        while near.poll(&mut client).is_ok() {}
        carry(&mut client, &mut server);
        assert!(far.kept_streams() <= KEPT, "{} of {cancelled}", far.kept_streams());
    }
    assert_eq!(cancelled, 1000);
}
