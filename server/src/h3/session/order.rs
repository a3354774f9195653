//! Priorities of open requests, by their fields and frames (RFC 9218).

use sluicegate_http::exchange::RequestHead;

use super::Http3Session;
use crate::h3::priority::{Parameters, Priority};
use crate::h3::response::Response;
use crate::h3::schedule::{Kind, Schedule};

impl Http3Session {
    /// Sets the priority by the request's field (RFC 9218 §4), or by a frame that came before it (§7.1), which takes precedence.
    pub(super) fn prioritize(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        head: &RequestHead,
    ) {
        let update = self.h3.take_last_priority_update(stream).ok();
        let parameters = match update {
            Some(value) => Some(Parameters::parse(&value)),
            None => Parameters::of(&head.headers),
        };
        if let Some(parameters) = parameters {
            let priority = parameters.over(Priority::default());
            self.reschedule(conn, stream, |schedule| schedule.request(priority));
        }
    }

    pub(super) fn on_priority_update(&mut self, conn: &mut quiche::Connection, stream: u64) {
        // An update before its request stays with quiche, which bounds them by the streams that the client may open.
        if self.open.contains_key(&stream)
            && let Ok(value) = self.h3.take_last_priority_update(stream)
        {
            let priority = Priority::parse(&value);
            self.reschedule(conn, stream, |schedule| schedule.request(priority));
        }
    }

    /// Takes the parameters of a response, which take precedence over the client's (RFC 9218 §8).
    pub(super) fn merge_priority(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        parameters: Parameters,
    ) {
        self.reschedule(conn, stream, |schedule| schedule.reply(parameters));
    }

    /// Lets a response share the connection that has written much.
    pub(super) fn share(&mut self, conn: &mut quiche::Connection, stream: u64) {
        self.reschedule(conn, stream, |schedule| schedule.set_kind(Kind::Burst));
    }

    /// Lets a response share that has waited too long behind more urgent ones; one at a time.
    pub(super) fn relieve(&mut self, conn: &mut quiche::Connection) {
        self.return_overdue(conn);
        if self.overdue.is_some() {
            return;
        }
        let Some(front) = self.pending.level(None) else {
            return;
        };
        let overdue = self.pending.behind(Some(front)).find(|(_, stream)| {
            let exchange = self.open.get(stream);
            exchange.is_some_and(|exchange| {
                let since = exchange.schedule.waits_from();
                self.pending.sharing.is_overdue(since) && exchange.waits_for_server(conn, *stream)
            })
        });
        self.overdue = overdue.map(|(_, stream)| stream);
        if let Some(stream) = self.overdue {
            self.reschedule(conn, stream, |schedule| schedule.set_kind(Kind::Overdue));
        }
    }

    /// Lets the response that had waited too long keep to the order again, once nothing more urgent waits, or if it waits for its
    /// client.
    pub(super) fn return_overdue(&mut self, conn: &mut quiche::Connection) {
        let Some(stream) = self.overdue else {
            return;
        };
        let exchange = self.open.get(&stream);
        let Some(exchange) = exchange.filter(|exchange| exchange.schedule.is_overdue()) else {
            self.overdue = None;
            return;
        };
        let place = exchange.schedule.ordered_place();
        if self.pending.level(None).is_none_or(|front| front >= place)
            || !exchange.waits_for_server(conn, stream)
        {
            self.overdue = None;
            self.reschedule(conn, stream, |schedule| schedule.set_kind(Kind::Ordered));
        }
    }

    /// Changes the place of a response, in the queue and among the data that waits to be sent.
    fn reschedule(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        change: impl FnOnce(&mut Schedule),
    ) {
        let Some(exchange) = self.open.get_mut(&stream) else {
            return;
        };
        let before = exchange.schedule.place();
        change(&mut exchange.schedule);
        let after = exchange.schedule.place();
        if before == after {
            return;
        }
        if self.pending.remove(before, stream) {
            self.pending.insert(after, stream);
        }
        if exchange.response.as_ref().is_some_and(Response::has_begun) {
            after.apply(conn, stream);
        }
    }
}
