//! The requests of a connection and their responses, whatever carries them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use crate::context::{Context, Line};
use crate::end::End;
use crate::heads::CountedHead;
use crate::request::{OpenRequest, Work};
use crate::schedule::{Pace, Schedule};

/// Result of a handshake.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    /// Lines of the report about TLS.
    pub(super) lines: Vec<String>,
    pub(super) protocol: &'static str,
    /// A session was resumed.
    pub(super) is_resumed: bool,
    /// Whether the server has accepted early data, if requests were sent in it.
    pub(super) early_data: Option<bool>,
}

/// Requests of a connection: those that are open, and those to send.
pub(crate) struct Exchanges {
    /// Address of the server.
    pub(super) peer: SocketAddr,
    /// Requests without a whole response, by their streams.
    pub(super) open: BTreeMap<u64, OpenRequest>,
    /// Requests still to be sent.
    pub(super) work: Work,
    /// Times of its requests, if they have a rate, once the first may be sent.
    schedule: Option<Schedule>,
    pub(super) begin: Instant,
    /// Time of the last part of a response or, while a body is sent, of anything that has arrived.
    pub(super) heard_at: Instant,
    /// Time of the last request, once none is left.
    last_request: Option<Instant>,
    /// Complete responses that count.
    pub(super) completed: u64,
    pub(super) first_byte: bool,
    /// Something has arrived.
    pub(super) heard: bool,
    /// The handshake is complete.
    pub(super) established: bool,
    /// Requests may be sent in early data, before the handshake is complete.
    pub(super) is_early: bool,
    /// The server takes no further requests.
    pub(super) going_away: bool,
    /// A request found no room; it is tried again after the next event.
    pub(super) stuck: bool,
}

impl Exchanges {
    pub(super) fn new(peer: SocketAddr, work: &Work, now: Instant) -> Exchanges {
        Exchanges {
            peer,
            open: BTreeMap::new(),
            work: work.clone(),
            schedule: None,
            begin: now,
            heard_at: now,
            last_request: None,
            completed: 0,
            first_byte: false,
            heard: false,
            established: false,
            is_early: false,
            going_away: false,
            stuck: false,
        }
    }

    /// Returns whether the options and the server allow another request, if the transport has room for it.
    pub(super) fn may_send(&self, cx: &Context<'_>) -> bool {
        (self.established || self.is_early)
            && !self.going_away
            && !self.stuck
            && (self.open.len() as u64) < cx.plan.options.max_concurrent_streams
    }

    /// Takes the end of the handshake.
    pub(super) fn on_established(&mut self, agreed: Agreed, cx: &mut Context<'_>) {
        let peer = self.peer;
        self.established = true;
        cx.handshaking -= 1;
        let tally = &mut cx.tally;
        tally.connections += 1;
        tally.protocol.get_or_insert_with(|| agreed.protocol.to_string());
        tally.resumed += u64::from(agreed.is_resumed);
        tally.early_accepted += u64::from(agreed.early_data == Some(true));
        tally.early_rejected += u64::from(agreed.early_data == Some(false));
        tally.connect.add_time(cx.now - self.begin);
        self.begin_pace(cx.now);
        if cx.reports && cx.tally.connections == 1 {
            let protocol = format!("Application protocol: {}", agreed.protocol);
            let lines = agreed.lines.into_iter().chain([protocol]);
            lines.for_each(|line| cx.say(Line::Report(line)));
        }
        cx.note(|| format!("connected to {peer}"));
    }

    /// Allows requests in early data, which the transport can send now (RFC 9001 §4.6).
    pub(super) fn on_early(&mut self, now: Instant) {
        self.is_early = true;
        self.begin_pace(now);
    }

    fn begin_pace(&mut self, now: Instant) {
        match &mut self.work.pace {
            Pace::Rate(rate) => {
                let schedule = || Schedule::new(now, *rate, 0, 1);
                self.schedule.get_or_insert_with(schedule);
            }
            Pace::Script(playback) => playback.begin(now),
            Pace::Closed | Pace::Shared => {}
        }
    }

    /// Returns the time before which its pace allows no request, if it has such times.
    pub(super) fn next_at(&self) -> Option<Instant> {
        match &self.work.pace {
            Pace::Rate(_) => self.schedule.as_ref().map(Schedule::next),
            // Requests that are sent again were due before.
            Pace::Script(playback) => {
                let again = self.work.again.front().map(|request| request.start);
                again.or_else(|| playback.next())
            }
            Pace::Closed | Pace::Shared => None,
        }
    }

    /// Returns whether its pace allows a request now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        match &self.work.pace {
            Pace::Closed => true,
            Pace::Rate(_) | Pace::Script(_) => self.next_at().is_some_and(|at| at <= now),
            Pace::Shared => false,
        }
    }

    /// Takes back the requests of early data, if the handshake was not completed. The server may have processed them, but early data
    /// has only safe methods, which may be repeated.
    pub(super) fn take_back(&mut self) {
        if !self.established {
            let open = std::mem::take(&mut self.open);
            self.work.again.extend(open.values().map(OpenRequest::unsent));
        }
    }

    /// Takes the news that the first request of its work was sent.
    pub(super) fn on_sent(&mut self, now: Instant) {
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
        }
        if self.work.again.pop_front().is_none() {
            self.work.new -= 1;
            if let Pace::Script(playback) = &mut self.work.pace {
                playback.advance();
            }
        }
        if self.work.is_empty() {
            self.last_request = Some(now);
        }
    }

    /// Returns whether all its requests have ended. One that shares a schedule never knows.
    pub(super) fn is_done(&self) -> bool {
        self.work.is_empty() && self.open.is_empty() && !matches!(self.work.pace, Pace::Shared)
    }

    /// Returns the times from which the latencies of open requests count, and of those that are to be sent again.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Instant> {
        let requests = self.open.values().chain(&self.work.again);
        requests.map(|request| request.start)
    }

    /// Takes the head of a response, or its trailers.
    pub(super) fn on_head(&mut self, stream: u64, head: &CountedHead, cx: &mut Context<'_>) {
        if !std::mem::replace(&mut self.first_byte, true) {
            cx.tally.first_byte.add_time(cx.now - self.begin);
        }
        let Some(request) = self.open.get_mut(&stream) else {
            return;
        };
        let status = request.on_head(head);
        if !cx.counts_request(request.start) {
            return;
        }
        cx.count_head(head);
        if let Some(status) = status
            && let Some(count) = cx.tally.status.get_mut(usize::from(status / 100))
        {
            *count += 1;
        }
    }

    /// Takes bytes of a response's body.
    pub(super) fn on_body(&mut self, stream: u64, bytes: usize, cx: &mut Context<'_>) {
        let Some(request) = self.open.get_mut(&stream) else {
            return;
        };
        request.on_body(bytes);
        if cx.counts_request(request.start) {
            cx.tally.bytes_body += bytes as u64;
        }
    }

    /// Returns whether a request is open without a head of a response.
    pub(super) fn has_no_head(&self, stream: u64) -> bool {
        let request = self.open.get(&stream);
        request.is_some_and(|request| request.status.is_none())
    }

    /// Takes GOAWAY: the server processes no request on `first` or a later stream (RFC 9114 §5.2, RFC 9113 §6.8). Returns those
    /// that were open.
    pub(super) fn on_goaway(&mut self, first: u64) -> Vec<u64> {
        self.going_away = true;
        let unprocessed = self.open.split_off(&first);
        let again = unprocessed.values().map(OpenRequest::unsent);
        self.work.again.extend(again);
        unprocessed.into_keys().collect()
    }

    /// Takes the rejection of a request, which the server did not process (RFC 9114 §4.1.1, RFC 9113 §8.7). Another connection
    /// sends it, since this one may reject it again.
    pub(super) fn on_rejected(&mut self, stream: u64) {
        self.going_away = true;
        if let Some(request) = self.open.remove(&stream) {
            self.work.again.push_back(request.unsent());
        }
    }

    /// Ends a request; `whole` if its stream ended where a message may end.
    pub(super) fn on_end(&mut self, stream: u64, whole: bool, cx: &mut Context<'_>) {
        let Some(request) = self.open.remove(&stream) else {
            return;
        };
        cx.open_requests -= 1;
        let status = request.complete(cx.plan.without_bodies).filter(|_| whole);
        if !cx.counts_request(request.start) {
            return;
        }
        match status {
            Some(status) => {
                self.completed += 1;
                cx.tally.completed += 1;
                let good = status < 400;
                cx.tally.succeeded += u64::from(good);
                cx.tally.failed += u64::from(!good);
                cx.count_time(request.start);
            }
            None => cx.tally.abandon(1),
        }
        if let Some(log) = &mut cx.log {
            log.write(request.start, status, cx.now);
        }
        cx.count_done();
    }

    /// Returns the end of a connection that takes no requests. A server that has not responded to anything would do the same with
    /// the next connection.
    pub(super) fn gone_away(&self) -> End {
        if self.first_byte {
            return End::GoneAway;
        }
        let peer = self.peer;
        End::Failed(format!("{peer} takes no requests (GOAWAY or rejections)"))
    }

    /// Returns the time at which an option's timeout closes the connection.
    pub(super) fn closes_at(&self, cx: &Context<'_>) -> Option<Instant> {
        let options = &cx.plan.options;
        let active = options.connection_active_timeout.zip(self.last_request);
        let inactive = options.connection_inactivity_timeout;
        let active = active.map(|(limit, last)| last + limit);
        let inactive = inactive.map(|limit| self.heard_at + limit);
        active.into_iter().chain(inactive).min()
    }
}
