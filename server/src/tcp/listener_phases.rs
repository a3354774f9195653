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
    /// Another descriptor of the socket while it is open, or the front is held.
    socket: RefCell<Option<TcpListener>>,
    /// Settings before it was removed, for connections that have begun; `None` while the configuration has it.
    last: RefCell<Option<Arc<TcpListenerConfig>>>,
}

impl FrontListener {
    pub(super) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
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
    /// The front stays though all has drained, and may serve again.
    is_held: Cell<bool>,
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

    /// Notes that a listener accepts no more. Its socket is kept while the front is held, unless a reload has removed it.
    pub(super) fn close(&self, listener: &FrontListener) {
        listener.is_listening.set(false);
        if !self.is_held.get() || listener.last.borrow().is_some() {
            listener.socket.replace(None);
        }
    }

    /// Holds the front, or no longer: it closes what it has kept then.
    pub(super) fn hold(&self, on: bool) {
        self.is_held.set(on);
        let all = self.all.borrow();
        for listener in all.iter().filter(|one| !on && !one.is_listening.get()) {
            listener.socket.replace(None);
        }
    }

    /// Returns whether the front stays though all has drained.
    pub(super) fn are_held(&self) -> bool {
        self.is_held.get() && self.whole() != Phase::Stopped
    }

    /// Has a front serve again that drains, and returns the sockets that it has kept. Connections that drain go on to do so.
    pub(super) fn resume(&self) -> Vec<(ListenerId, TcpListener)> {
        if self.whole() != Phase::Draining {
            return Vec::new();
        }
        self.whole.send_replace(Phase::Serving);
        let mut all = self.all.borrow_mut();
        let in_effect = all.iter().filter(|one| one.last.borrow().is_none());
        let sockets = in_effect.filter_map(|one| Some((one.id, one.socket.take()?)));
        let sockets = sockets.collect();
        // Connections keep those that they belong to.
        all.retain(|one| one.is_listening.get() || Rc::strong_count(one) > 1);
        sockets
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

    #[test]
    fn a_held_front_keeps_the_sockets_that_it_accepts_from_again() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        let phases = ListenerPhases::default();
        let [removed, kept] =
            [0, 1].map(|id| phases.add(ListenerId(id), Some(socket.try_clone().unwrap())));
        drop(socket);
        phases.hold(true);
        phases.drain(&config(&[0, 1]), &config(&[1]));
        phases.enter(Phase::Draining);
        for one in [&removed, &kept] {
            phases.close(one);
        }
        assert!(!phases.are_listening() && phases.are_held());
        let again = phases.resume();
        assert_eq!(again.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [ListenerId(1)]);
        assert_eq!(again[0].1.local_addr().unwrap(), at);
        assert!(phases.are_listening());
        assert_eq!(*kept.phase().borrow(), Phase::Draining, "its connections end");
        let (_, socket) = again.into_iter().next().unwrap();
        let added = phases.add(ListenerId(1), Some(socket));
        assert_eq!(*added.phase().borrow(), Phase::Serving);
        phases.enter(Phase::Draining);
        phases.close(&added);
        phases.hold(false);
        assert!(phases.resume().is_empty(), "they were closed");
        phases.enter(Phase::Stopped);
        assert!(phases.resume().is_empty() && phases.whole() == Phase::Stopped);
    }
}
