//! The front's half of an exchange: the rules of HTTP and of the exchange that hold whatever the transport.
//!
//! A driver shows the machine each message of the handler and each event of the client, and carries out what the machine returns. The
//! driver owns the stream, its flow control and its codes, the route and the record for the log.
//!
//! The directions are independent: neither the head nor the end of a response ends the request's body.

mod body;

use std::time::Instant;

use sluicegate_base::observe::access::Outcome;
use sluicegate_base::observe::account::{AccountMark, RequestAccount, RequestWait, Wait};

use self::body::HandlerBody;
pub use self::body::Next;
use super::message::{HandlerReport, Head, Opening, Request, ToFront, cost};
use super::{Fields, has_content};

/// Front's half of one exchange.
#[derive(Debug)]
pub struct FrontExchange {
    account: RequestAccount,
    /// What the handler waits for if the client does not wait for anything else.
    handler_wait: Wait,
    is_head: bool,
    /// Status that opens the tunnel for which the request asks.
    opening: Option<Opening>,
    is_tunnel: bool,
    reading: Reading,
    /// Length of the request's body by its head.
    content_length: Option<u64>,
    /// Most bytes of it that are accepted.
    limit: u64,
    /// Bytes of it received so far.
    received: u64,
    /// Credit left for it, by [`cost`]; below zero if the last block cost more than there was.
    credit: i64,
    /// A handler works on the request, and its messages count.
    has_handler: bool,
    /// The response ended with its head, though the handler has more.
    is_shortened: bool,
    phase: Phase,
    body: HandlerBody,
    /// Outcome of the exchange, unless its client takes the whole response.
    early: Option<Outcome>,
    has_ended: bool,
}

/// State of the request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    /// The head has only just come.
    #[default]
    Undecided,
    /// It is dropped, and the front's reply waits for its end.
    Discarding,
    /// The handler gets it.
    Passing,
    /// Nobody needs the rest.
    Left,
    /// It has ended, or is read no more.
    Over,
}

/// State of the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing is decided.
    #[default]
    Silent,
    /// A handler is to respond.
    Awaited,
    /// The final head of the handler has come.
    Flowing,
    /// The front responds itself.
    Own,
    /// The client has taken the whole response.
    Taken,
    /// The response will not be completed.
    Cut,
}

/// Consequence of a message of the handler.
#[derive(Debug)]
pub enum FrontAction {
    /// Nothing changes.
    Nothing,
    /// Send an informational response, before the final one.
    Inform(u16, Fields),
    /// Begin the final response. If its head says that it ends there, nothing follows.
    Begin(Head),
    /// The response goes on: [`FrontExchange::next_part`].
    GoOn,
    /// The handler has failed, with the status that the client gets in its place or does not get any more.
    Fail(u16, Instead),
    /// Cancel the handler: it sends more than its response has room for.
    Cancel,
    /// Pass more of the request's body to the handler.
    ReadOn,
    /// Leave the rest of the request's body: nobody needs it.
    LeaveBody,
    /// Record facts for the log.
    Report(Box<HandlerReport>),
}

/// Substitute for a handler's response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// A reply of the front.
    Reply,
    /// A reset, because a response has begun.
    Reset,
    /// What it gets anyway: it has the whole response, or will have.
    Nothing,
}

/// Consequence of a part of the request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The handler gets it, if there is one.
    Accepted,
    /// Nobody needs it.
    Unneeded,
    /// The body has another length than the head says.
    Malformed,
    /// The body is longer than it may be.
    TooLarge,
}

impl FrontExchange {
    /// Begins the exchange of a request whose head has just come.
    pub fn new(is_head: bool, now: Instant) -> FrontExchange {
        FrontExchange {
            account: RequestAccount::begin(Wait::Application, now),
            handler_wait: Wait::Application,
            is_head,
            opening: None,
            is_tunnel: false,
            reading: Reading::default(),
            content_length: None,
            limit: 0,
            received: 0,
            credit: 0,
            has_handler: false,
            is_shortened: false,
            phase: Phase::default(),
            body: HandlerBody::default(),
            early: None,
            has_ended: false,
        }
    }

    /// Returns the account of its time.
    pub fn account(&self) -> &RequestAccount {
        &self.account
    }

    /// Notes what the request waits for from now on: what keeps a part of the response that is ready from being sent, if there is any;
    /// before the response, the rest of its body, if `awaits_body`; or its handler. `moment` returns the time and the account of the
    /// connection, if they are needed.
    pub fn note_wait(
        &mut self,
        awaits_body: bool,
        output: Option<RequestWait>,
        moment: impl FnOnce() -> (Instant, AccountMark),
    ) {
        let wait = match output {
            Some(wait) => wait,
            None if awaits_body && !self.has_head() => RequestWait::Own(Wait::RequestBody),
            None => RequestWait::Own(self.wait_of_handler()),
        };
        if wait != self.account.wait() {
            let (now, connection) = moment();
            self.account.enter(wait, now, &connection);
        }
    }

    /// Returns what the handler waits for. One that waited for a response gets it from the head on.
    fn wait_of_handler(&self) -> Wait {
        match self.handler_wait {
            _ if self.is_tunnel => Wait::Tunnel,
            Wait::Queue | Wait::UpstreamConnect | Wait::UpstreamResponse
                if self.phase == Phase::Flowing =>
            {
                Wait::UpstreamBody
            }
            wait => wait,
        }
    }

    /// Has the front reply once the request has ended, whose body of at most `limit` bytes is dropped.
    pub fn discard(&mut self, content_length: Option<u64>, limit: u64) {
        (self.content_length, self.limit) = (content_length, limit);
        self.reading = Reading::Discarding;
    }

    /// Notes what a handler is to get, if there is room for it: a body of at most `limit` bytes, and `credit` of it at first.
    pub fn prepare(&mut self, request: &Request, limit: u64, credit: u64) {
        self.opening = Opening::of(request);
        // What a client sends through a tunnel is no body (RFC 9110 §9.3.6).
        self.content_length = request.content_length.filter(|_| self.opening.is_none());
        self.limit = limit;
        self.credit = i64::try_from(credit).unwrap_or(i64::MAX);
    }

    /// Has a handler respond, which gets the request's body if there is one, and at first waits for `wait`.
    pub fn hand_over(&mut self, has_body: bool, wait: Wait) {
        self.handler_wait = wait;
        self.reading = if has_body { Reading::Passing } else { Reading::Over };
        self.has_handler = true;
        self.phase = Phase::Awaited;
    }

    /// Takes a message of the handler.
    pub fn on_message(&mut self, message: ToFront) -> FrontAction {
        match message {
            ToFront::Report(report) => FrontAction::Report(report),
            ToFront::Waits(wait) => {
                self.handler_wait = wait;
                FrontAction::Nothing
            }
            ToFront::Closed => self.on_closed(),
            // The front has responded in its place, or the response is cut.
            _ if !self.has_handler => FrontAction::Nothing,
            ToFront::Interim(status, fields) => self.on_interim(status, fields),
            ToFront::Head(mut head) if self.phase == Phase::Awaited => {
                self.begin(&mut head);
                FrontAction::Begin(head)
            }
            ToFront::Head(_) => FrontAction::Nothing,
            ToFront::Data(block) => self.on_body(|body| body.push(block)),
            ToFront::Range(range) => self.on_body(|body| body.lend(range)),
            // A front that needs no word of the end has given the client all. The handler may have more to do.
            ToFront::End(_) if self.phase == Phase::Taken => {
                self.body.is_ended = true;
                FrontAction::Nothing
            }
            ToFront::End(trailers) if !self.body.is_ended => {
                self.on_body(|body| body.end(trailers))
            }
            ToFront::End(_) => FrontAction::Nothing,
            ToFront::Abort(status) => self.on_failure(status),
            ToFront::Credit(amount) => {
                self.credit = self.credit.saturating_add_unsigned(amount);
                FrontAction::ReadOn
            }
            ToFront::StopBody => self.on_unneeded_body(),
        }
    }

    fn on_interim(&mut self, status: u16, fields: Fields) -> FrontAction {
        self.body.credit += cost(fields.iter().map(|(n, v)| n.as_str().len() + v.len()).sum());
        if self.phase == Phase::Awaited {
            FrontAction::Inform(status, fields)
        } else {
            FrontAction::Nothing
        }
    }

    /// Begins the handler's response. Its head says that it ends there if nothing may follow.
    pub(super) fn begin(&mut self, head: &mut Head) {
        self.phase = Phase::Flowing;
        self.is_tunnel = !head.end && self.opening.is_some_and(|opening| opening.is(head.status));
        self.is_shortened = !head.end && !self.is_tunnel && !self.has_content(head.status);
        head.end |= self.is_shortened;
        self.body.is_ended |= head.end;
        self.body.length = head.length.filter(|_| !head.end);
        if head.end {
            self.body.clear();
        }
    }

    /// Adds to the response, of which nothing may follow the end.
    fn on_body(&mut self, add: impl FnOnce(&mut HandlerBody)) -> FrontAction {
        if self.body.is_ended || self.phase == Phase::Taken {
            self.has_handler = false;
            return FrontAction::Cancel;
        }
        add(&mut self.body);
        FrontAction::GoOn
    }

    fn on_failure(&mut self, status: u16) -> FrontAction {
        match self.refuse() {
            Instead::Nothing => FrontAction::Nothing,
            instead => FrontAction::Fail(status, instead),
        }
    }

    /// A handler that is gone without an end of its response has failed.
    fn on_closed(&mut self) -> FrontAction {
        if self.has_handler
            && let failed @ FrontAction::Fail(..) = self.on_failure(502)
        {
            return failed;
        }
        self.on_unneeded_body()
    }

    fn on_unneeded_body(&self) -> FrontAction {
        if self.reading == Reading::Passing { FrontAction::LeaveBody } else { FrontAction::Nothing }
    }

    /// Has the front respond itself, and no handler any more.
    pub fn refuse(&mut self) -> Instead {
        self.has_handler = false;
        match self.phase {
            Phase::Silent | Phase::Awaited => {
                self.phase = Phase::Own;
                Instead::Reply
            }
            Phase::Flowing if !self.body.is_ended => self.reset(Outcome::Reset),
            Phase::Flowing | Phase::Own | Phase::Taken | Phase::Cut => Instead::Nothing,
        }
    }

    /// Does the same for want of memory, which a response of the handler holds until the client has taken all of it.
    pub fn revoke(&mut self) -> Instead {
        match self.phase {
            Phase::Flowing if !self.is_empty() => self.reset(Outcome::Reset),
            _ => self.refuse(),
        }
    }

    /// Does the same because the client makes no progress, which ends each response that has begun.
    pub fn stall(&mut self) -> Instead {
        match self.phase {
            Phase::Silent | Phase::Awaited => {
                self.early = Some(Outcome::Stalled);
                self.refuse()
            }
            _ => self.reset(Outcome::Stalled),
        }
    }

    /// Cuts the response, or leaves the request without one, unless the client has taken it. The first reason counts.
    pub fn cut(&mut self, outcome: Outcome) {
        self.has_handler = false;
        if self.phase != Phase::Taken {
            self.reset(outcome);
        }
    }

    fn reset(&mut self, outcome: Outcome) -> Instead {
        self.has_handler = false;
        if self.phase != Phase::Cut {
            self.phase = Phase::Cut;
            self.early.get_or_insert(outcome);
            self.body.clear();
        }
        Instead::Reset
    }

    /// Notes that the client has taken the whole response.
    pub fn complete(&mut self) {
        if self.phase != Phase::Cut {
            self.phase = Phase::Taken;
        }
    }

    /// Ends the exchange, whose client is gone unless something else has happened. Returns the outcome, once.
    pub fn end(&mut self) -> Option<Outcome> {
        let outcome = match self.phase {
            Phase::Taken => Outcome::Complete,
            _ => self.early.unwrap_or(Outcome::Cancelled),
        };
        (!std::mem::replace(&mut self.has_ended, true)).then_some(outcome)
    }

    /// Returns what the client is sent next of the handler's response, behind its head.
    pub fn next_part(&mut self) -> Next<'_> {
        match self.phase {
            Phase::Flowing if self.body.prepare() => self.body.next(),
            Phase::Flowing => {
                self.cut(Outcome::Reset);
                Next::WrongLength
            }
            Phase::Cut => Next::Cut,
            Phase::Silent | Phase::Awaited | Phase::Own | Phase::Taken => Next::Wait,
        }
    }

    /// Notes that the client has taken so many bytes of the response's body; those of a handler have left their block.
    pub fn on_taken(&mut self, count: u64) {
        self.body.on_taken(count);
    }

    /// Takes the credit for blocks that the client has taken: not for every block, but `batch` of it, or all before the handler has to
    /// wait.
    pub fn take_credit(&mut self, batch: u64) -> Option<u64> {
        let body = &mut self.body;
        let is_due = self.has_handler
            && body.credit > 0
            && !body.is_reading_range()
            && (body.credit >= batch || body.is_drained());
        is_due.then(|| std::mem::take(&mut body.credit))
    }

    /// Adds credit for the handler's next blocks.
    pub fn add_credit(&mut self, amount: u64) {
        self.body.credit += amount;
    }

    /// Returns how many bytes were read of a lent range that goes back to the handler, once.
    pub fn take_range_read(&mut self) -> Option<u64> {
        self.body.take_range_read()
    }

    /// Returns whether the client has taken a block of a lent range since the last call.
    pub fn take_range_moved(&mut self) -> bool {
        std::mem::take(&mut self.body.has_lent_moved)
    }

    /// Takes bytes of the request's body.
    pub fn on_data(&mut self, count: u64) -> Received {
        if !self.reads() {
            return Received::Unneeded;
        }
        self.received += count;
        if self.content_length.is_some_and(|length| self.received > length) {
            Received::Malformed
        } else if self.received > self.limit {
            Received::TooLarge
        } else {
            self.credit = self.credit.saturating_sub_unsigned(count + cost(0));
            Received::Accepted
        }
    }

    /// Takes the end of the request. If it is accepted, the handler gets it, or the reply that has waited for it is due.
    pub fn on_end(&mut self) -> Received {
        let is_short = self.content_length.is_some_and(|length| length != self.received);
        match std::mem::replace(&mut self.reading, Reading::Over) {
            Reading::Discarding | Reading::Passing if is_short => Received::Malformed,
            Reading::Discarding if self.phase == Phase::Silent => {
                self.phase = Phase::Own;
                Received::Accepted
            }
            Reading::Passing if self.has_handler => Received::Accepted,
            _ => Received::Unneeded,
        }
    }

    /// Leaves the rest of the request's body, which the client may still send. Returns whether it was read, or nothing was decided about it.
    pub fn leave_body(&mut self) -> bool {
        let is_first = self.reads() || self.reading == Reading::Undecided;
        self.reading = if is_first { Reading::Left } else { Reading::Over };
        is_first
    }

    /// Reads no more of the request.
    pub fn stop_reading(&mut self) {
        self.reading = Reading::Over;
    }

    /// Returns whether somebody needs the request's body.
    pub fn reads(&self) -> bool {
        matches!(self.reading, Reading::Discarding | Reading::Passing)
    }

    /// Returns whether a handler gets the request's body.
    pub fn passes(&self) -> bool {
        self.reading == Reading::Passing && self.has_handler
    }

    /// Returns the bytes of the next block that the handler may be passed; 0 while it has to read first.
    pub fn room(&self) -> u64 {
        let credit = u64::try_from(self.credit).unwrap_or(0).saturating_sub(cost(0));
        if self.passes() { credit } else { 0 }
    }

    /// Returns the bytes of the request's body received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Returns the bytes of the response's body that the client has taken.
    pub fn sent(&self) -> u64 {
        self.body.sent
    }

    /// Returns the length of the handler's body, if its head has said it.
    pub fn length(&self) -> Option<u64> {
        self.body.length
    }

    /// Returns whether the front responds itself.
    pub fn is_own(&self) -> bool {
        self.phase == Phase::Own
    }

    /// Returns whether the response will not be completed.
    pub fn is_cut(&self) -> bool {
        self.phase == Phase::Cut
    }

    /// Returns whether the client has taken the whole response.
    pub fn is_taken(&self) -> bool {
        self.phase == Phase::Taken
    }

    /// Returns whether neither direction has anything left.
    pub fn is_over(&self) -> bool {
        self.reading == Reading::Over && self.phase == Phase::Taken
    }

    /// Returns whether a handler that has not ended is of no more use once the exchange is forgotten.
    pub fn needs_cancel(&self) -> bool {
        !self.is_over() || self.is_shortened
    }

    /// Returns whether there is a final head.
    pub fn has_head(&self) -> bool {
        !matches!(self.phase, Phase::Silent | Phase::Awaited)
    }

    /// Returns whether a response with this status has content.
    pub fn has_content(&self, status: u16) -> bool {
        !self.is_head && has_content(status)
    }

    /// Returns whether the client has taken all that has come of the handler's body.
    pub fn is_drained(&self) -> bool {
        self.body.is_drained()
    }

    /// Returns whether nothing follows the head.
    pub fn is_bare(&self) -> bool {
        self.body.is_empty() && self.body.length.is_none_or(|length| length == 0)
    }

    /// Returns whether a part of the handler's body, or its end, waits for the client.
    pub fn has_output(&self) -> bool {
        self.phase == Phase::Flowing && (self.body.is_ended || !self.body.is_drained())
    }

    /// Returns whether the whole body of the handler was taken, and no trailers follow.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    /// Returns whether the response has opened the tunnel for which the request asks.
    pub fn is_tunnel(&self) -> bool {
        self.is_tunnel
    }

    /// Returns whether such a tunnel is open: its handler has not ended.
    pub fn has_tunnel(&self) -> bool {
        self.is_tunnel && self.has_handler
    }
}

#[cfg(test)]
mod tests;
