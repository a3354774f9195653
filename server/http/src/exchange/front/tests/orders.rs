//! Messages and events in any order, by a driver that sends nothing.

use proptest::prelude::*;

use super::*;

/// A message of the handler, an event of the client, or a step of the driver.
#[derive(Clone, Debug)]
enum Step {
    Interim,
    Head {
        status: u16,
        length: Option<u64>,
        end: bool,
    },
    Data(usize),
    Range {
        count: usize,
        ends: bool,
    },
    End(bool),
    Abort,
    Credit(u64),
    StopBody,
    Closed,
    Received(usize),
    RequestEnd,
    /// The client takes so many bytes, or the end.
    Take(usize),
    Refuse,
    Revoke,
    Stall,
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![4 => Just(200_u16), 1 => Just(204), 1 => Just(304), 1 => Just(101)];
    let length = proptest::option::of(0..20_u64);
    prop_oneof![
        1 => Just(Step::Interim),
        4 => (status, length, any::<bool>())
            .prop_map(|(status, length, end)| Step::Head { status, length, end }),
        6 => (1..9_usize).prop_map(Step::Data),
        2 => (1..9_usize, any::<bool>()).prop_map(|(count, ends)| Step::Range { count, ends }),
        4 => any::<bool>().prop_map(Step::End),
        1 => Just(Step::Abort),
        2 => (0..9_u64).prop_map(Step::Credit),
        1 => Just(Step::StopBody),
        2 => Just(Step::Closed),
        4 => (1..9_usize).prop_map(Step::Received),
        2 => Just(Step::RequestEnd),
        12 => (1..9_usize).prop_map(Step::Take),
        1 => Just(Step::Refuse),
        1 => Just(Step::Revoke),
        1 => Just(Step::Stall),
        1 => Just(Step::Reset),
    ]
}

/// Events that client and handler have seen.
#[derive(Debug, Default)]
struct Seen {
    heads: u32,
    /// Length and end by the head.
    head: Option<(Option<u64>, bool)>,
    own: bool,
    bytes: u64,
    is_complete: bool,
    is_reset: bool,
    passed: u64,
    is_request_ended: bool,
    /// Credit spent and returned.
    spent: u64,
    credited: u64,
}

struct Driver {
    exchange: FrontExchange,
    content_length: Option<u64>,
    range_waits: bool,
    seen: Seen,
}

impl Driver {
    fn reply(&mut self) {
        self.seen.heads += 1;
        self.seen.own = true;
    }

    fn instead(&mut self, instead: Instead) {
        match instead {
            Instead::Reply => self.reply(),
            Instead::Reset => self.seen.is_reset = true,
            Instead::Nothing => {}
        }
    }

    fn give(&mut self, message: ToFront) {
        match self.exchange.on_message(message) {
            FrontAction::Inform(..) => assert_eq!(self.seen.heads, 0),
            FrontAction::Begin(head) => {
                self.seen.heads += 1;
                self.seen.head = Some((head.length, head.end));
            }
            FrontAction::Fail(_, instead) => {
                assert_ne!(instead, Instead::Nothing);
                self.instead(instead);
            }
            FrontAction::LeaveBody => assert!(self.exchange.leave_body()),
            FrontAction::Cancel => assert!(!self.exchange.has_handler),
            _ => {}
        }
    }

    fn take(&mut self, most: usize) {
        if self.seen.is_complete || self.seen.is_reset {
            return;
        }
        if self.exchange.is_own() {
            self.seen.is_complete = true;
            return self.exchange.complete();
        }
        let (count, is_last) = match self.exchange.next_part() {
            Next::Block(block, is_last) => {
                let part = block.split_to(most.min(block.len()));
                (part.len() as u64, is_last && block.is_empty())
            }
            Next::End(_) => (0, true),
            Next::Wait => return,
            Next::WrongLength => {
                self.seen.is_reset = true;
                return;
            }
            Next::Cut => panic!("the driver knows of each reset"),
        };
        if count > 0 {
            self.exchange.on_taken(count);
        }
        assert!(self.seen.head.is_some() && !self.seen.own, "a head comes first");
        self.seen.bytes += count;
        if is_last {
            self.seen.is_complete = true;
            self.exchange.complete();
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Interim => {
                self.seen.spent += cost(6);
                self.give(ToFront::Interim(103, fields()));
            }
            Step::Head { status, length, end } => self.give(of_status(status, length, end)),
            Step::Data(count) => {
                self.seen.spent += cost(count);
                self.give(ToFront::Data(vec![7; count].into()));
            }
            // A handler lends one at a time.
            Step::Range { .. } if self.range_waits => {}
            Step::Range { count, ends } => {
                let source = Source::new(&[7; 8], 6);
                let range = source.lend(0..count as u64 % 8 + 1, ends);
                self.range_waits = true;
                self.give(ToFront::Range(Box::new(range)));
            }
            Step::End(trailers) => self.give(ToFront::End(trailers.then(fields))),
            Step::Abort => self.give(ToFront::Abort(502)),
            Step::Credit(amount) => self.give(ToFront::Credit(amount)),
            Step::StopBody => self.give(ToFront::StopBody),
            Step::Closed => self.give(ToFront::Closed),
            Step::Received(count) => match self.exchange.on_data(count as u64) {
                Received::Accepted => self.seen.passed += count as u64,
                Received::Unneeded => {}
                Received::Malformed | Received::TooLarge => {
                    let instead = self.exchange.refuse();
                    self.exchange.leave_body();
                    self.instead(instead);
                }
            },
            Step::RequestEnd => match self.exchange.on_end() {
                Received::Accepted if self.exchange.is_own() => self.reply(),
                Received::Accepted => {
                    assert!(!std::mem::replace(&mut self.seen.is_request_ended, true));
                    assert!(self.content_length.is_none_or(|length| length == self.seen.passed));
                }
                Received::Unneeded => {}
                Received::TooLarge => panic!("an end has no length"),
                Received::Malformed if self.seen.is_complete => {}
                Received::Malformed => {
                    self.exchange.cut(Outcome::Reset);
                    self.seen.is_reset = true;
                }
            },
            Step::Take(most) => self.take(most),
            Step::Refuse => {
                let instead = self.exchange.refuse();
                self.instead(instead);
            }
            Step::Revoke => {
                let instead = self.exchange.revoke();
                self.instead(instead);
            }
            Step::Stall if !self.seen.is_complete => {
                let instead = self.exchange.stall();
                self.instead(instead);
            }
            Step::Reset if !self.seen.is_complete => {
                self.exchange.cut(Outcome::Cancelled);
                self.seen.is_reset = true;
            }
            Step::Stall | Step::Reset => {}
        }
        if self.exchange.take_range_read().is_some() {
            self.range_waits = false;
        }
        self.seen.credited += self.exchange.take_credit(0).unwrap_or(0);
    }

    fn check(&self) {
        let Seen { heads, head, bytes, is_complete, is_reset, .. } = self.seen;
        assert!(heads <= 1, "{heads} final heads");
        if let Some((length, end)) = head {
            assert!(!end || bytes == 0, "{bytes} bytes behind the end");
            assert!(end || length.is_none_or(|length| bytes <= length), "{bytes} bytes");
            assert!(end || !is_complete || length.is_none_or(|length| bytes == length));
        }
        assert!(!(is_complete && is_reset));
        assert!(self.seen.passed <= self.content_length.unwrap_or(LIMIT).min(LIMIT));
        assert!(self.seen.credited <= self.seen.spent);
        assert_eq!(self.exchange.sent(), bytes);
    }
}

proptest! {
    #[test]
    fn no_order_of_messages_and_events_breaks_a_rule(
        discards in prop::bool::weighted(0.2),
        is_head in prop::bool::weighted(0.2),
        content_length in proptest::option::of(0..30_u64),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut exchange = FrontExchange::new(is_head, clock::now());
        if discards {
            exchange.discard(content_length, LIMIT);
        } else {
            let method = if is_head { "HEAD" } else { "POST" };
            let request = request(head(method, "/", &[]), content_length, true);
            exchange.prepare(&request, LIMIT, CREDIT);
            exchange.hand_over(true, Wait::Application);
        }
        let seen = Seen::default();
        let mut driver = Driver { exchange, content_length, range_waits: false, seen };
        for step in steps {
            driver.step(step);
            driver.check();
        }
        let Driver { mut exchange, seen, .. } = driver;
        prop_assert_eq!(exchange.is_cut(), seen.is_reset);
        let outcome = exchange.end();
        prop_assert_eq!(outcome == Some(Outcome::Complete), seen.is_complete);
        prop_assert!(outcome.is_some() && exchange.end().is_none());
        prop_assert!(!discards || seen.head.is_none());
    }
}
