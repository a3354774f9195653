//! Applications at both ends: pages that are requested one after the other, and a receiver that reads at a rate.

use std::time::Duration;

use sluicegate_cc::Time;

use super::source::Source;

/// Pages of a flow's data. The next one is requested some time after all of the one before was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// Size of a page.
    pub bytes: u64,
    /// Time from the end of a page to the request of the next.
    pub think: Duration,
}

/// Flow control of a receiver: so much may be sent that its application has not read.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveWindow {
    /// Room for data that was not read, bytes.
    pub bytes: u64,
    /// Rate at which the application reads, bits per second; `u64::MAX` reads everything at once.
    pub bits_per_second: u64,
}

/// The requests for [`Pages`] so far. Times count from the start of the flow.
#[derive(Debug)]
pub(super) struct Requests {
    pages: Pages,
    /// Datagrams of a page.
    page: u64,
    /// Datagrams of all pages.
    total: u64,
    requested: u64,
    /// Time of the latest request.
    requested_at: Duration,
    acked: u64,
    /// Datagrams of the pages that have arrived.
    arrived: u64,
    next: Option<Duration>,
}

impl Requests {
    /// Returns the state with the first page requested, of `total` datagrams of `mtu` bytes.
    pub(super) const fn new(pages: Pages, total: u64, mtu: u64) -> Self {
        let page = pages.bytes.div_ceil(mtu);
        Self {
            pages,
            page,
            total,
            requested: page,
            requested_at: Duration::ZERO,
            acked: 0,
            arrived: 0,
            next: None,
        }
    }

    /// Returns the datagrams requested by `elapsed`.
    pub(super) fn offered(&mut self, elapsed: Duration) -> u64 {
        if let Some(at) = self.next.filter(|at| *at <= elapsed) {
            self.next = None;
            self.requested_at = at;
            self.requested += self.page;
        }
        self.requested
    }

    /// Returns when the sender had the request for a page whose last datagram has just arrived; `datagrams` have arrived so far.
    pub(super) fn on_arrival(&mut self, datagrams: u64) -> Option<Duration> {
        let requested = self.requested.min(self.total);
        (datagrams == requested && self.arrived < requested).then(|| {
            self.arrived = requested;
            self.requested_at
        })
    }

    /// Notes that one more datagram was acknowledged.
    pub(super) fn on_acked(&mut self, elapsed: Duration) {
        self.acked += 1;
        if self.acked == self.requested {
            self.next = Some(elapsed + self.pages.think);
        }
    }

    /// Returns the time of the next request, if it is known.
    pub(super) const fn next(&self) -> Option<Duration> {
        self.next
    }
}

/// The data that a sender has: what its source offers, as far as it was requested and flow control allows.
#[derive(Debug)]
pub(super) struct Supply {
    source: Source,
    requests: Option<Requests>,
    /// Limit of flow control, bytes from the start of the data.
    limit: u64,
    start: Time,
    mtu: u64,
    /// Datagrams taken.
    taken: usize,
}

impl Supply {
    /// Returns a supply without requests and flow control, from `start` on and in datagrams of `mtu` bytes.
    pub(super) const fn new(source: Source, start: Time, mtu: u64) -> Self {
        Self { source, requests: None, limit: u64::MAX, start, mtu, taken: 0 }
    }

    /// Has the data requested in pages, and sets the limit of flow control, bytes.
    pub(super) fn limit(&mut self, pages: Option<Pages>, bytes: u64) {
        let total = self.total().unwrap_or(u64::MAX);
        self.requests = pages.map(|pages| Requests::new(pages, total, self.mtu));
        self.limit = bytes;
    }

    /// Returns the datagrams in total; `None` if the data never ends.
    pub(super) fn total(&self) -> Option<u64> {
        self.source.total(self.mtu)
    }

    /// Returns the number of the next datagram of data; `None` if there is none now.
    pub(super) fn take(&mut self, now: Time) -> Option<usize> {
        let elapsed = now.saturating_since(self.start);
        let requests = self.requests.as_mut();
        let requested = requests.map_or(u64::MAX, |requests| requests.offered(elapsed));
        let offered = self.source.offered(elapsed, self.mtu);
        let allowed = self.limit / self.mtu;
        let next = self.taken;
        ((next as u64) < offered.min(requested).min(allowed)).then(|| {
            self.taken += 1;
            next
        })
    }

    /// Notes that one more datagram was acknowledged.
    pub(super) fn on_acked(&mut self, now: Time) {
        if let Some(requests) = &mut self.requests {
            requests.on_acked(now.saturating_since(self.start));
        }
    }

    /// Returns when the sender had the request for a page whose last datagram has just arrived; `datagrams` have arrived so far.
    pub(super) fn on_arrival(&mut self, datagrams: u64) -> Option<Time> {
        let requested_at = self.requests.as_mut()?.on_arrival(datagrams)?;
        Some(self.start + requested_at)
    }

    /// Takes a limit of flow control from the receiver, bytes.
    pub(super) fn on_limit(&mut self, bytes: u64) {
        self.limit = self.limit.max(bytes);
    }

    /// Returns when there may be more data.
    pub(super) fn next(&self, now: Time) -> Option<Time> {
        let offer = self.source.next_offer(now.saturating_since(self.start));
        let request = self.requests.as_ref().and_then(Requests::next);
        let next = [offer, request].into_iter().flatten().min();
        next.map(|after| self.start + after)
    }
}

/// An application that reads what arrives.
#[derive(Debug)]
pub(super) struct Reader {
    window: ReceiveWindow,
    /// Bytes read.
    read: f64,
    at: Time,
}

impl Reader {
    pub(super) const fn new(window: ReceiveWindow) -> Self {
        Self { window, read: 0.0, at: Time::ZERO }
    }

    /// Returns the limit of flow control after `received` bytes have arrived: bytes from the start of the data.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "not negative, and at most the bytes that arrived"
    )]
    pub(super) fn limit(&mut self, now: Time, received: u64) -> u64 {
        let elapsed = now.saturating_since(self.at).as_secs_f64();
        self.at = now;
        let read = self.read + elapsed * self.window.bits_per_second as f64 / 8.0;
        self.read = read.min(received as f64);
        self.read as u64 + self.window.bytes
    }

    /// Returns the interval between updates of the limit, which come though no packet does: half a window's. `None` for a reader
    /// that never waits.
    pub(super) fn update_every(&self) -> Option<Duration> {
        let rate = self.window.bits_per_second;
        (rate != u64::MAX)
            .then(|| Duration::from_secs_f64(self.window.bytes as f64 * 4.0 / rate as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_page_is_requested_after_the_one_before_was_read() {
        let ms = Duration::from_millis;
        let pages = Pages { bytes: 2_500, think: ms(100) };
        let mut requests = Requests::new(pages, 5, 1_200);
        for elapsed in [10, 20] {
            requests.on_acked(ms(elapsed));
            assert_eq!((requests.offered(ms(elapsed)), requests.next()), (3, None));
        }
        requests.on_acked(ms(30));
        assert_eq!(requests.next(), Some(ms(130)));
        assert_eq!(requests.offered(ms(129)), 3);
        assert_eq!((requests.offered(ms(130)), requests.next()), (6, None));
    }

    #[test]
    fn page_that_arrived_is_found_once_with_the_time_of_its_request() {
        let ms = Duration::from_millis;
        let pages = Pages { bytes: 2_400, think: ms(100) };
        let mut requests = Requests::new(pages, 3, 1_200);
        let arrivals = [1, 2, 2].map(|datagrams| requests.on_arrival(datagrams));
        assert_eq!(arrivals, [None, Some(ms(0)), None]);
        for elapsed in [20, 30] {
            requests.on_acked(ms(elapsed));
        }
        assert_eq!(requests.offered(ms(140)), 4);
        // The last page is shorter.
        assert_eq!(requests.on_arrival(3), Some(ms(130)));
    }

    #[test]
    fn window_moves_with_what_was_read() {
        let mut reader = Reader::new(ReceiveWindow { bytes: 10_000, bits_per_second: 8_000_000 });
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        assert_eq!(reader.limit(at(0), 5_000), 10_000);
        assert_eq!(reader.limit(at(2), 5_000), 12_000);
        // There was no more to read.
        assert_eq!(reader.limit(at(50), 5_000), 15_000);
        assert_eq!(reader.limit(at(51), 9_000), 16_000);
        assert_eq!(reader.update_every(), Some(Duration::from_millis(5)));
    }
}
