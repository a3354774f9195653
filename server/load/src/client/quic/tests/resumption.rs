//! Sessions that are resumed, and early data that the server accepts or rejects.

use super::*;

/// Key of the server's session tickets.
const TICKETS: [u8; 48] = [7; 48];

/// Returns the configuration of a server, which accepts early data or not.
fn resuming(accepts_early: bool) -> quiche::Config {
    let mut config = config(10);
    config.set_ticket_key(&TICKETS).unwrap();
    if accepts_early {
        config.enable_early_data();
    }
    config
}

impl Server {
    /// Forgets its connection, and takes another one.
    fn restart(&mut self, accepts_early: bool) {
        self.config = resuming(accepts_early);
        (self.quic, self.h3) = (None, None);
        self.requests.clear();
        // The last packets of the connection before.
        while self.socket.recv_from(&mut [0; 2048]).is_ok() {}
    }

    /// Responds to each request, once.
    fn respond_to_all(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        requests.into_iter().for_each(|stream| self.respond(stream));
    }
}

impl Pair<'_, Server> {
    /// Lets the server respond until the client has ended.
    fn finish(&mut self) {
        for _ in 0..100_000 {
            if self.end.is_some() {
                assert_eq!(self.end, Some(End::Done));
                return;
            }
            self.server.respond_to_all();
            self.turn();
        }
        panic!("it never ends");
    }

    /// Returns the numbers of connections: all, those that resumed a session, and those whose early data was accepted or rejected.
    fn connections(&self) -> [u64; 4] {
        let tally = &self.cx.tally;
        [tally.connections, tally.resumed, tally.early_accepted, tally.early_rejected]
    }
}

/// Options of a client that sends early data.
const EARLY: &str = "-n8 -m4 --resume --early-data";

/// Returns a server that accepts early data, and the plan of a client with these options.
fn server_and_plan(words: &str) -> (Server, Plan) {
    let mut server = Server::new(SERVER_IDLE);
    server.config = resuming(true);
    let plan = server.plan(words);
    (server, plan)
}

/// Makes a whole connection by `plan`, and returns the two sides of another one, whose server accepts early data or not.
fn second(server: Server, plan: &Plan, accepts_early: bool) -> Pair<'_, Server> {
    let mut pair = connect(server, plan, 4);
    pair.finish();
    pair.reopen(4);
    pair.server.restart(accepts_early);
    pair
}

#[test]
fn a_session_is_resumed_only_if_that_is_asked_for() {
    for (words, resumed) in [("-n8", 0), ("-n8 --resume", 1)] {
        let (server, plan) = server_and_plan(words);
        let mut pair = second(server, &plan, true);
        pair.turn();
        assert!(!pair.client.exchanges.is_early);
        pair.finish();
        assert_eq!(pair.connections(), [2, resumed, 0, 0]);
        assert_eq!(pair.cx.tally.succeeded, 8);
    }
}

#[test]
fn requests_in_early_data_arrive_before_the_handshake_is_complete() {
    let (server, plan) = server_and_plan(EARLY);
    let mut pair = second(server, &plan, true);
    pair.turn();
    assert!(!pair.client.exchanges.established);
    assert_eq!(pair.client.exchanges.open.len(), 4);
    pair.server.turn(pair.cx.now);
    assert_eq!(pair.server.requests, [0, 4, 8, 12]);
    assert!(!pair.server.quic.as_ref().unwrap().is_established());
    pair.finish();
    assert_eq!(pair.connections(), [2, 1, 1, 0]);
    let tally = &pair.cx.tally;
    assert_eq!((tally.started, tally.succeeded, tally.done), (8, 8, 8));
    assert_eq!(pair.cx.open_requests, 0);
}

#[test]
fn requests_of_early_data_that_is_rejected_are_processed_once() {
    let (server, plan) = server_and_plan(EARLY);
    let mut pair = second(server, &plan, false);
    pair.until(|pair| pair.client.exchanges.open.len() == 4);
    assert!(!pair.client.exchanges.established);
    pair.until(|pair| pair.server.requests.len() == 4);
    assert_eq!(pair.server.requests, [0, 4, 8, 12]);
    pair.finish();
    assert_eq!(pair.connections(), [2, 1, 0, 1]);
    let tally = &pair.cx.tally;
    assert_eq!((tally.started, tally.succeeded, tally.done), (8, 8, 8));
    assert_eq!(pair.cx.open_requests, 0);
}

#[test]
fn unsafe_methods_wait_for_the_handshake() {
    for (words, accepted) in [("-d /dev/null", 0), ("-d /dev/null -H :method:GET", 1)] {
        let (server, plan) = server_and_plan(&format!("{EARLY} {words}"));
        let mut pair = second(server, &plan, true);
        pair.finish();
        assert_eq!(pair.connections(), [2, 1, accepted, 0], "{words}");
    }
}

#[test]
fn early_data_follows_the_rate_of_the_connection() {
    let (server, plan) = server_and_plan(&format!("{EARLY} --rps 10"));
    let mut pair = second(server, &plan, true);
    pair.turn();
    assert_eq!(pair.client.exchanges.open.len(), 1);
    pair.finish();
    assert_eq!(pair.connections(), [2, 1, 1, 0]);
    assert_eq!(pair.cx.tally.succeeded, 8);
}

#[test]
fn early_data_without_a_handshake_is_taken_back() {
    let (server, plan) = server_and_plan(EARLY);
    let mut pair = connect(server, &plan, 4);
    pair.finish();
    pair.server.vanished = true;
    pair.reopen(6);
    pair.turn();
    assert_eq!(pair.client.exchanges.open.len(), 4);
    let work = pair.client.take_work();
    assert!(pair.client.exchanges.open.is_empty());
    assert_eq!((work.new, work.again.len()), (2, 4));
}

#[test]
fn the_file_gets_a_session_with_transport_parameters() {
    let path = std::env::temp_dir().join(format!("sluicegate-early-{}", std::process::id()));
    let words = format!("-n4 -m4 --early-data --tls-session-file {}", path.display());
    let mut server = Server::new(SERVER_IDLE);
    for accepted in [0, 1] {
        server.restart(true);
        let plan = server.plan(&words);
        let mut pair = connect(server, &plan, 4);
        pair.finish();
        assert_eq!(pair.connections(), [1, accepted, accepted, 0]);
        plan.session_file.as_ref().unwrap().store().unwrap();
        server = pair.server;
    }
    std::fs::remove_file(path).unwrap();
}
