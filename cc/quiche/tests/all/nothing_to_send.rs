//! Attempts to send that would find nothing, and need not be made.

use std::cell::Cell;

use quiche::Error;
use sluicegate_cc::{Controller, Init, Layer, Options, Time};
use sluicegate_test_support::{built_by, builtin, config, emit, set_algorithm, Pair};

thread_local!(static REPORTS: Cell<u32> = const { Cell::new(0) });

/// Counts the reports that data ran out.
#[derive(Debug)]
struct Counting(Box<dyn Controller>);

impl Layer for Counting {
    fn inner(&self) -> &dyn Controller {
        &*self.0
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.0
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.0.on_app_limited(now, in_flight);
        REPORTS.set(REPORTS.get() + 1);
    }
}

fn counting(init: &Init, options: &Options) -> Box<dyn Controller> {
    Box::new(Counting((builtin("cubic").build)(init, options)))
}

/// Returns how many reports something makes.
fn reports(of: impl FnOnce()) -> u32 {
    let before = REPORTS.get();
    of();
    REPORTS.get() - before
}

/// Asserts that an attempt finds nothing where the connection says so, and is reported as the answer was. Returns whether it says so.
fn check(server: &mut quiche::Connection) -> bool {
    let mut done = false;
    let said = reports(|| done = server.is_done());
    if done {
        let found = reports(|| assert_eq!(server.send(&mut [0; 1500]), Err(Error::Done)));
        assert_eq!(said, found, "reports that data ran out");
    } else {
        assert_eq!(said, 0, "an attempt is yet to be made");
    }
    done
}

#[test]
fn nothing_is_found_where_a_connection_says_so() {
    let (mut client, mut server) = (config(1000), config(1000));
    set_algorithm(&mut server, built_by("cubic", counting));
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.client.stream_send(0, b"?", true).expect("request");
    pair.settle();
    let len = 500_000;
    let body = vec![7; len];
    let (mut written, mut read, mut carried) = (0, 0, 0);
    let (mut done, mut stayed, mut reported) = (0, 0, 0);
    while read < len {
        // Lost packets are sent again in some turns, and nothing is to be done in others.
        reported += reports(|| done += u32::from(check(&mut pair.server)));
        let end = (written + 20_000).min(len);
        if let Ok(taken) = pair.server.stream_send(0, &body[written..end], end == len) {
            written += taken;
        }
        let sent = emit(&mut pair.server);
        if pair.server.stays_done() {
            stayed += 1;
            assert_eq!(pair.server.send(&mut [0; 1500]), Err(Error::Done));
        }
        read += pair.carry(&sent, &mut carried, 60);
    }
    assert!(
        done > 5 && stayed > 5 && reported > 5,
        "{done} done, {stayed} stayed so, {reported} reports"
    );
}

#[test]
fn answer_is_left_open_where_the_connection_closes() {
    let (mut client, mut server) = (config(1000), config(1000));
    set_algorithm(&mut server, builtin("cubic"));
    let mut pair = Pair::connect(&mut client, &mut server);
    pair.settle();
    assert!(check(&mut pair.server));
    assert!(!pair.client.stays_done(), "quiche's own controller");
    pair.server.close(true, 0, b"").expect("close");
    assert!(!check(&mut pair.server), "CONNECTION_CLOSE is due");
}
