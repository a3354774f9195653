//! Requests at the times of a script.

use super::*;
use crate::schedule::Pace;

/// Returns the plan of a client that plays a script.
fn plan(server: &Server, script: &str, words: &str) -> Plan {
    let name = format!("sluicegate-script-{}", server.address());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, script).unwrap();
    let base = format!("-B https://{}", server.address());
    let of_script = format!("--timing-script-file {}", path.display());
    let plan = server.plan(&format!("{words} {base} {of_script}"));
    std::fs::remove_file(path).unwrap();
    plan
}

/// Returns the times of the open requests since that of the first one, milliseconds.
fn starts(pair: &Pair<'_, Server>) -> Vec<u128> {
    let starts: Vec<_> = pair.client.waiting().collect();
    let since = starts.iter().map(|start| *start - starts[0]);
    since.map(|time| time.as_millis()).collect()
}

#[test]
fn requests_leave_at_the_times_of_their_lines() {
    let server = Server::new(SERVER_IDLE);
    let plan = plan(&server, "0\t/\n5.5\t/\n30\t/\n", "-m9");
    let mut pair = connect(server, &plan, 5);
    pair.pass(Duration::from_secs(1));
    // The script begins again where it has ended.
    assert_eq!(starts(&pair), [0, 5, 30, 30, 35]);
    assert_eq!(pair.server.requests, [0, 4, 8, 12, 16]);
    let heads = pair.client.exchanges.open.values();
    assert!(heads.map(|request| request.head).eq([0, 1, 2, 0, 1]));
}

#[test]
fn a_request_waits_while_as_many_are_open_as_may_be() {
    let server = Server::new(SERVER_IDLE);
    let plan = plan(&server, "0\t/\n10\t/\n20\t/\n200\t/\n", "-m2");
    let mut pair = connect(server, &plan, 4);
    pair.pass(Duration::from_millis(100));
    assert_eq!(pair.server.requests, [0, 4]);
    let sent = pair.cx.now;
    pair.server.respond(4);
    pair.until(|pair| pair.server.requests == [0, 4, 8]);
    // Its latency counts from here.
    assert!(pair.client.waiting().any(|start| start > sent));
    pair.server.respond(0);
    pair.until(|pair| pair.client.exchanges.open.len() == 1);
    pair.pass(Duration::from_millis(50));
    assert_eq!(pair.server.requests, [0, 4, 8]);
    pair.pass(Duration::from_millis(100));
    // The wait has not moved the next one.
    assert_eq!(pair.server.requests, [0, 4, 8, 12]);
}

#[test]
fn another_connection_goes_on_with_the_script() {
    let server = Server::new(SERVER_IDLE);
    let plan = plan(&server, "0\t/\n0\t/\n50\t/\n", "-m3");
    let mut pair = connect(server, &plan, 3);
    pair.until(|pair| pair.server.requests == [0, 4]);
    let start = pair.client.waiting().next().unwrap();
    pair.server.respond(0);
    pair.server.goaway(4);
    pair.leaves_requests((1, 0), (1, 1));
    let work = pair.client.take_work();
    assert_eq!(work.next_head, 2);
    let Pace::Script(playback) = &work.pace else {
        panic!("{:?}", work.pace);
    };
    let due = start + Duration::from_millis(50);
    assert_eq!(playback.next(), Some(due));
    let mut exchanges = Exchanges::new(plan.addresses[0], &work, pair.cx.now);
    // What the server did not process is sent at once.
    assert!(exchanges.is_due(pair.cx.now));
    exchanges.on_sent(pair.cx.now);
    assert_eq!(exchanges.next_at(), Some(due));
}
