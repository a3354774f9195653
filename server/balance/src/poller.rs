//! Waits for sockets. Events are levels: a socket that has more is reported again, after the others.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, Result};

use crate::flows::FlowId;

/// Events taken at a time.
const EVENTS: usize = 256;

/// Source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// Place of a listener.
    Listener(u32),
    /// A flow, which may have ended since.
    Flow(FlowId),
    /// Place of a check, which may have ended since, and its number.
    Probe(u32, u32),
    /// Place of a signal.
    Signal(u32),
}

/// Bits of a place and of a generation in an event's data.
const PLACE: u32 = 24;
const GENERATION: u32 = 32;

impl EventSource {
    fn data(self) -> epoll::EventData {
        let (kind, place, generation) = match self {
            EventSource::Listener(place) => (0, place, 0),
            EventSource::Flow(FlowId { index, generation }) => (1, index, generation),
            EventSource::Probe(place, number) => (2, place, number),
            EventSource::Signal(place) => (3, place, 0),
        };
        let place = u64::from(place) & ((1 << PLACE) - 1);
        epoll::EventData::new_u64(
            kind << (PLACE + GENERATION) | u64::from(generation) << PLACE | place,
        )
    }

    fn of(data: u64) -> Option<EventSource> {
        let place = u32::try_from(data & ((1 << PLACE) - 1)).ok()?;
        let generation = u32::try_from(data >> PLACE & u64::from(u32::MAX)).ok()?;
        Some(match data >> (PLACE + GENERATION) {
            0 => EventSource::Listener(place),
            1 => EventSource::Flow(FlowId { index: place, generation }),
            2 => EventSource::Probe(place, generation),
            3 => EventSource::Signal(place),
            _ => return None,
        })
    }
}

/// Sockets that are watched, and the events of the last wait.
pub(crate) struct SocketPoller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl SocketPoller {
    pub(crate) fn new() -> Result<SocketPoller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(SocketPoller { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Reports from now on that `socket` is readable. Closing it ends that.
    pub(crate) fn add(&self, socket: impl AsFd, source: EventSource) -> Result<()> {
        epoll::add(&self.epoll, socket, source.data(), epoll::EventFlags::IN)
    }

    /// Reports that `socket` is writable.
    pub(crate) fn add_writable(&self, socket: impl AsFd, source: EventSource) -> Result<()> {
        epoll::add(&self.epoll, socket, source.data(), epoll::EventFlags::OUT)
    }

    /// Sleeps until there is an event, at most for `limit` (`None`: no limit). A signal ends it sooner.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        self.events.clear();
        // The kernel counts in milliseconds, and a wait that is too short would be repeated at once.
        let limit = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), limit.as_ref()) {
            Err(error) if error != Errno::INTR => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the source of an event of the last wait.
    pub(crate) fn event(&self, index: usize) -> Option<EventSource> {
        let data = self.events.get(index)?.data;
        EventSource::of(data.u64())
    }

    /// Returns the number of events of the last wait.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_about_what_was_added() {
        for source in [
            EventSource::Listener(0),
            EventSource::Listener(63),
            EventSource::Flow(FlowId { index: 59_999, generation: u32::MAX }),
            EventSource::Flow(FlowId { index: 0, generation: 1 }),
            EventSource::Probe(255, u32::MAX),
            EventSource::Signal(1),
        ] {
            assert_eq!(EventSource::of(source.data().u64()), Some(source));
        }
        assert_eq!(EventSource::of(u64::MAX), None);
    }
}
