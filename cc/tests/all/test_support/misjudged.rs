//! A transport that takes delivered packets for lost ones, and finds out later.

use std::sync::{Arc, Mutex};

use sluicegate_cc::{Controller, Event, Layer, Packet, Snapshot, State};

/// The inside before the error, right after it, and after the correction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stages {
    pub(crate) before: Option<Snapshot>,
    pub(crate) after: Option<Snapshot>,
    pub(crate) corrected: Option<Snapshot>,
}

/// Reports every acknowledged packet as lost, from the first event in `when` until the state changes or, if `persistent`,
/// until persistent congestion follows. The next event but one corrects it.
#[derive(Debug)]
pub(crate) struct Misjudged {
    inner: Box<dyn Controller>,
    when: State,
    persistent: bool,
    events: u64,
    wrong: Vec<Packet>,
    stages: Arc<Mutex<Stages>>,
}

impl Misjudged {
    /// Errs in the second round of `when`, so that there is something to lose.
    pub(crate) fn new(
        inner: Box<dyn Controller>,
        when: State,
        persistent: bool,
    ) -> (Box<Self>, Arc<Mutex<Stages>>) {
        let stages = Arc::default();
        let this = Self {
            inner,
            when,
            persistent,
            events: 0,
            wrong: Vec::new(),
            stages: Arc::clone(&stages),
        };
        (Box::new(this), stages)
    }

    fn err(&mut self, event: &Event<'_>) {
        self.wrong.extend(event.acked);
        self.inner.on_event(&Event { acked: &[], lost: event.acked, rtt_updated: false, ..*event });
        if self.persistent {
            self.inner.on_persistent_congestion(event.now);
        }
    }
}

impl Layer for Misjudged {
    fn inner(&self) -> &dyn Controller {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Controller {
        &mut *self.inner
    }

    fn on_event(&mut self, event: &Event<'_>) {
        let stages = *self.stages.lock().expect("one thread");
        self.events += u64::from(self.inner.state() == self.when);
        if stages.after.is_none() && self.events > 20 {
            let before = stages.before.unwrap_or_else(|| self.inner.snapshot());
            self.err(event);
            let after = self.inner.snapshot();
            let done = self.persistent || after.state != self.when;
            *self.stages.lock().expect("one thread") =
                Stages { before: Some(before), after: done.then_some(after), corrected: None };
            return;
        }
        if stages.after.is_some() && stages.corrected.is_none() {
            self.inner.on_event(&Event {
                acked: &[],
                lost: &[],
                late_acked: &self.wrong,
                in_flight: event.in_flight_before,
                rtt_updated: false,
                ..*event
            });
            let corrected = Some(self.inner.snapshot());
            self.stages.lock().expect("one thread").corrected = corrected;
        }
        self.inner.on_event(event);
    }
}
