//! Phases of a front's listeners, which their connections follow.

use std::cell::RefCell;
use std::rc::Rc;

use sluicegate_dataplane::ListenerId;
use tokio::sync::watch;

/// Phase of a listener, or of a whole front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    #[default]
    Serving,
    Draining,
    Stopped,
}

/// A listener with its phase.
#[derive(Debug)]
pub(super) struct ListenerPhase {
    listener: ListenerId,
    phase: watch::Sender<Phase>,
}

/// The listeners of a front.
#[derive(Debug, Default)]
pub(super) struct ListenerPhases {
    all: RefCell<Vec<Rc<ListenerPhase>>>,
    /// Phase of the front.
    whole: watch::Sender<Phase>,
}

impl ListenerPhases {
    /// Adds a listener, in the phase of the front, and returns its phase.
    pub(super) fn add(&self, listener: ListenerId) -> watch::Receiver<Phase> {
        let (phase, receiver) = watch::channel(self.whole());
        let added = Rc::new(ListenerPhase { listener, phase });
        self.all.borrow_mut().push(added);
        receiver
    }

    /// Returns the phase of the front.
    pub(super) fn whole(&self) -> Phase {
        *self.whole.borrow()
    }

    /// Waits until the front stops.
    pub(super) async fn stopped(&self) {
        // The sender stays as long as the front.
        let _ = self
            .whole
            .subscribe()
            .wait_for(|phase| *phase == Phase::Stopped)
            .await;
    }

    /// Has the front and all listeners enter a phase, unless they are beyond it.
    pub(super) fn enter(&self, phase: Phase) {
        enter(&self.whole, phase);
        for listener in &*self.all.borrow() {
            enter(&listener.phase, phase);
        }
    }

    /// Has the listeners drain that are not to be kept, and returns those that did not before.
    pub(super) fn drain(&self, is_kept: impl Fn(ListenerId) -> bool) -> Vec<Rc<ListenerPhase>> {
        let all = self.all.borrow();
        let serving = all
            .iter()
            .filter(|one| *one.phase.borrow() == Phase::Serving);
        let removed: Vec<_> = { serving.filter(|one| !is_kept(one.listener)).cloned() }.collect();
        for listener in &removed {
            enter(&listener.phase, Phase::Draining);
        }
        removed
    }

    /// Stops a listener, which has had its time to drain.
    pub(super) fn stop(&self, stopped: &Rc<ListenerPhase>) {
        enter(&stopped.phase, Phase::Stopped);
        self.all
            .borrow_mut()
            .retain(|one| !Rc::ptr_eq(one, stopped));
    }
}

/// Enters a phase, unless it is beyond it.
fn enter(current: &watch::Sender<Phase>, phase: Phase) {
    current.send_modify(|current| *current = phase.max(*current));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_listener_drains_while_the_others_serve() {
        let phases = ListenerPhases::default();
        let [first, second] = [0, 1].map(|id| phases.add(ListenerId(id)));
        let removed = phases.drain(|id| id == ListenerId(1));
        assert_eq!(
            (*first.borrow(), *second.borrow()),
            (Phase::Draining, Phase::Serving)
        );
        assert!(
            phases.drain(|id| id == ListenerId(1)).is_empty(),
            "it drains already"
        );
        // Its address is configured again meanwhile.
        let again = phases.add(ListenerId(0));
        assert_eq!(
            (*first.borrow(), *again.borrow()),
            (Phase::Draining, Phase::Serving)
        );
        for stopped in &removed {
            phases.stop(stopped);
        }
        assert_eq!(
            (*first.borrow(), *again.borrow()),
            (Phase::Stopped, Phase::Serving)
        );
        phases.enter(Phase::Draining);
        assert_eq!(
            (*second.borrow(), *again.borrow()),
            (Phase::Draining, Phase::Draining)
        );
        assert_eq!(*phases.add(ListenerId(2)).borrow(), Phase::Draining);
    }
}
