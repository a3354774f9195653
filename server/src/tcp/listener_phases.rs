//! Phases of a front's listeners, which their connections follow.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use sluicegate_dataplane::ListenerId;
use tokio::sync::watch;

use super::config::{TcpListenerConfig, TcpListeners};

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
pub(super) struct FrontListener {
    id: ListenerId,
    phase: watch::Sender<Phase>,
    /// Whether the socket is open.
    is_listening: Cell<bool>,
    /// Another descriptor of the socket while it is open.
    socket: RefCell<Option<TcpListener>>,
    /// Settings before it was removed, for connections that have begun; `None` while the configuration has it.
    last: RefCell<Option<Arc<TcpListenerConfig>>>,
}

impl FrontListener {
    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Notes that its socket is closed.
    pub(super) fn close(&self) {
        self.is_listening.set(false);
        self.socket.replace(None);
    }

    /// Waits until its connections are to be closed.
    pub(super) async fn stopped(&self) {
        // The sender is this value's own.
        let _ = self.phase().wait_for(|phase| *phase == Phase::Stopped).await;
    }

    /// Returns its settings: its last ones if it was removed, or else those of `current`.
    pub(super) fn settings(&self, current: &TcpListeners) -> Option<Arc<TcpListenerConfig>> {
        let last = self.last.borrow().clone();
        last.or_else(|| current.get(&self.id).cloned())
    }
}

/// The listeners of a front.
#[derive(Debug, Default)]
pub(super) struct ListenerPhases {
    all: RefCell<Vec<Rc<FrontListener>>>,
    /// Phase of the front.
    whole: watch::Sender<Phase>,
}

impl ListenerPhases {
    /// Returns other descriptors of the sockets of those that serve.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub(super) fn duplicate_sockets(&self) -> io::Result<Vec<(ListenerId, OwnedFd)>> {
        let mut sockets = Vec::new();
        for one in &*self.all.borrow() {
            if let (Phase::Serving, Some(socket)) = (*one.phase.borrow(), &*one.socket.borrow()) {
                sockets.push((one.id, socket.try_clone()?.into()));
            }
        }
        Ok(sockets)
    }

    /// Adds a listener, in the phase of the front.
    pub(super) fn add(&self, id: ListenerId, socket: Option<TcpListener>) -> Rc<FrontListener> {
        let added = Rc::new(FrontListener {
            id,
            phase: watch::Sender::new(self.whole()),
            is_listening: Cell::new(true),
            socket: RefCell::new(socket),
            last: RefCell::default(),
        });
        self.all.borrow_mut().push(Rc::clone(&added));
        added
    }

    /// Returns the phase of the front.
    pub(super) fn whole(&self) -> Phase {
        *self.whole.borrow()
    }

    /// Returns whether the front serves, or a socket of it is still open.
    pub(super) fn are_listening(&self) -> bool {
        let all = self.all.borrow();
        self.whole() == Phase::Serving || all.iter().any(|one| one.is_listening.get())
    }

    /// Waits until the front stops.
    pub(super) async fn stopped(&self) {
        // The sender stays as long as the front.
        let _ = self.whole.subscribe().wait_for(|phase| *phase == Phase::Stopped).await;
    }

    /// Has the front and all listeners enter a phase, unless they are beyond it.
    pub(super) fn enter(&self, phase: Phase) {
        enter(&self.whole, phase);
        for listener in &*self.all.borrow() {
            enter(&listener.phase, phase);
        }
    }

    /// Has the listeners drain that `before` has and `current` has not, and returns those that did not before.
    pub(super) fn drain(
        &self,
        before: &TcpListeners,
        current: &TcpListeners,
    ) -> Vec<Rc<FrontListener>> {
        let all = self.all.borrow();
        let serving = all.iter().filter(|one| *one.phase.borrow() == Phase::Serving);
        let removed = serving.filter(|one| !current.contains_key(&one.id));
        let removed: Vec<_> = removed.cloned().collect();
        for listener in &removed {
            listener.last.replace(before.get(&listener.id).cloned());
            enter(&listener.phase, Phase::Draining);
        }
        removed
    }

    /// Stops a listener, which has had its time to drain.
    pub(super) fn stop(&self, stopped: &Rc<FrontListener>) {
        enter(&stopped.phase, Phase::Stopped);
        self.all.borrow_mut().retain(|one| !Rc::ptr_eq(one, stopped));
    }
}

/// Enters a phase, unless it is beyond it.
fn enter(current: &watch::Sender<Phase>, phase: Phase) {
    current.send_modify(|current| *current = phase.max(*current));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::networks::Networks;

    /// Returns a configuration with these listeners.
    fn config(ids: &[u16]) -> TcpListeners {
        let listener = |id: &u16| TcpListenerConfig {
            name: id.to_string().into(),
            tls: None,
            trusted_proxies: Arc::default(),
            proxy_protocol: Networks::default(),
            alt_svc: None,
            redirect: None,
        };
        ids.iter().map(|id| (ListenerId(*id), listener(id).into())).collect()
    }

    #[test]
    fn a_removed_listener_drains_while_the_others_serve() {
        let phases = ListenerPhases::default();
        let [both, one] = [config(&[0, 1]), config(&[1])];
        let [left, kept] = [0, 1].map(|id| phases.add(ListenerId(id), None));
        let [first, second] = [left.phase(), kept.phase()];
        let removed = phases.drain(&both, &one);
        assert_eq!((*first.borrow(), *second.borrow()), (Phase::Draining, Phase::Serving));
        let name = |listener: &FrontListener| listener.settings(&one).map(|s| s.name.to_string());
        assert_eq!(
            (name(&left).as_deref(), name(&kept).as_deref()),
            (Some("0"), Some("1")),
            "its connections go on with its settings"
        );
        assert!(phases.drain(&both, &one).is_empty(), "it drains already");
        // Its address is configured again meanwhile.
        let again = phases.add(ListenerId(0), None).phase();
        assert_eq!((*first.borrow(), *again.borrow()), (Phase::Draining, Phase::Serving));
        for stopped in &removed {
            phases.stop(stopped);
        }
        assert_eq!((*first.borrow(), *again.borrow()), (Phase::Stopped, Phase::Serving));
        phases.enter(Phase::Draining);
        assert_eq!((*second.borrow(), *again.borrow()), (Phase::Draining, Phase::Draining));
        assert_eq!(*phases.add(ListenerId(2), None).phase().borrow(), Phase::Draining);
    }
}
