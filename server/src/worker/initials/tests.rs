use std::io;
use std::time::Duration;

use sluicegate_base::clock;
use sluicegate_dataplane::memory::{self, Memory};
use sluicegate_dataplane::{
    Budget, Counters, Ecn, Egress, Event, InitialFilter, ListenerId, RxMeta, Waker,
};

use super::*;
use crate::snapshot::plain_settings;

/// A driver that notes its filters, or refuses them.
struct Noting {
    driver: Memory,
    filters: Vec<Option<InitialFilter>>,
    refusal: Option<ErrorKind>,
}

impl Dataplane for Noting {
    fn backend(&self) -> &'static str {
        self.driver.backend()
    }

    fn receive(
        &mut self,
        budget: Budget,
        sink: impl FnMut(&RxMeta, &mut [u8]),
    ) -> io::Result<usize> {
        self.driver.receive(budget, sink)
    }

    fn transmit<R>(
        &mut self,
        budget: Budget,
        emit: impl FnOnce(&mut dyn Egress) -> R,
    ) -> io::Result<R> {
        self.driver.transmit(budget, emit)
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.driver.wait(timeout)
    }

    fn filter_initials(&mut self, filter: Option<&InitialFilter>) -> io::Result<()> {
        self.filters.push(filter.copied());
        self.refusal.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn take_event(&mut self) -> Option<Event> {
        self.driver.take_event()
    }

    fn waker(&self) -> Waker {
        self.driver.waker()
    }

    fn counters(&self) -> Counters {
        self.driver.counters()
    }
}

/// Floods an endpoint for a second, then leaves it alone for two, in turns of 10 ms. Returns the filters that the driver got.
fn filters_of_a_flood(refusal: Option<ErrorKind>) -> Vec<Option<InitialFilter>> {
    let addresses = ["192.0.2.1:5000", "192.0.2.2:443"].map(|a| a.parse().unwrap());
    let (_, driver) = memory::pair(addresses[0], addresses[1]);
    let mut driver = Noting { driver, filters: Vec::new(), refusal };
    let mut settings = plain_settings(0, 1);
    settings.quic.retry_above = Some(0);
    let mut now = clock::now();
    let mut endpoint = Endpoint::new(settings, now);
    let meta = RxMeta {
        listener: ListenerId(0),
        peer: addresses[0],
        local: addresses[1],
        ecn: Ecn::NotCapable,
    };
    // An Initial packet to a connection ID of 8 bytes.
    let mut packet = vec![0; 1200];
    packet[..6].copy_from_slice(&[0xc0, 0, 0, 0, 1, 8]);
    for turn in 0..300 {
        for _ in 0..if turn < 100 { 1000 } else { 0 } {
            endpoint.ingest(&meta, &mut packet, now, Duration::from_secs(1));
        }
        now += Duration::from_millis(10);
        filter_initials(&mut driver, &mut endpoint, now);
    }
    driver.filters
}

#[test]
fn driver_gets_a_filter_when_a_flood_begins_and_none_when_it_has_ended() {
    let filters = filters_of_a_flood(None);
    let (first, last) = (filters.first().unwrap(), filters.last().unwrap());
    let first = first.unwrap();
    assert_eq!(first.known, InitialFilter::ALL);
    assert!(first.unknown < InitialFilter::ALL);
    assert_eq!(*last, None);
    // Ten times a second at most.
    assert!(filters.len() < 30, "{filters:?}");
}

#[test]
fn driver_that_refuses_a_filter_is_asked_once() {
    for refusal in [ErrorKind::Unsupported, ErrorKind::PermissionDenied] {
        assert_eq!(filters_of_a_flood(Some(refusal)).len(), 1);
    }
}
