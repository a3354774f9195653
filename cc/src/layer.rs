//! Controllers around controllers: to watch one, to inject faults, to change what it returns.

use std::fmt::Debug;

use crate::{
    AdoptedWindow, Controller, Event, PacketState, PathChange, Sent, Snapshot, State, Time,
};

/// A controller around another one. It passes every call to the inner controller, except the calls that it overrides.
///
/// A type that implements it is a [`Controller`]. Both traits have the same methods: with both in scope, write
/// `Layer::cwnd(self)`.
pub trait Layer: Debug + Send + Sync {
    /// Returns the controller inside.
    fn inner(&self) -> &dyn Controller;

    /// Returns the controller inside.
    fn inner_mut(&mut self) -> &mut dyn Controller;

    /// See [`Controller::on_sent`].
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.inner_mut().on_sent(now, sent)
    }

    /// See [`Controller::on_event`].
    fn on_event(&mut self, event: &Event<'_>) {
        self.inner_mut().on_event(event);
    }

    /// See [`Controller::on_app_limited`].
    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.inner_mut().on_app_limited(now, in_flight);
    }

    /// See [`Controller::on_persistent_congestion`].
    fn on_persistent_congestion(&mut self, now: Time) {
        self.inner_mut().on_persistent_congestion(now);
    }

    /// See [`Controller::on_discarded`].
    fn on_discarded(&mut self, now: Time, packet_number: u64) {
        self.inner_mut().on_discarded(now, packet_number);
    }

    /// See [`Controller::on_path_changed`].
    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        self.inner_mut().on_path_changed(now, change);
    }

    /// See [`Controller::on_mtu`].
    fn on_mtu(&mut self, mtu: u64) {
        self.inner_mut().on_mtu(mtu);
    }

    /// See [`Controller::adopt`].
    fn adopt(&mut self, now: Time, window: AdoptedWindow) {
        self.inner_mut().adopt(now, window);
    }

    /// See [`Controller::cwnd`].
    fn cwnd(&self) -> u64 {
        self.inner().cwnd()
    }

    /// See [`Controller::pacing_rate`].
    fn pacing_rate(&self) -> Option<u64> {
        self.inner().pacing_rate()
    }

    /// See [`Controller::send_quantum`].
    fn send_quantum(&self) -> u64 {
        self.inner().send_quantum()
    }

    /// See [`Controller::state`].
    fn state(&self) -> State {
        self.inner().state()
    }

    /// See [`Controller::ssthresh`].
    fn ssthresh(&self) -> Option<u64> {
        self.inner().ssthresh()
    }

    /// See [`Controller::snapshot`].
    fn snapshot(&self) -> Snapshot {
        self.inner().snapshot()
    }
}

impl<T: Layer> Controller for T {
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        Layer::on_sent(self, now, sent)
    }

    fn on_event(&mut self, event: &Event<'_>) {
        Layer::on_event(self, event);
    }

    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        Layer::on_app_limited(self, now, in_flight);
    }

    fn on_persistent_congestion(&mut self, now: Time) {
        Layer::on_persistent_congestion(self, now);
    }

    fn on_discarded(&mut self, now: Time, packet_number: u64) {
        Layer::on_discarded(self, now, packet_number);
    }

    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        Layer::on_path_changed(self, now, change);
    }

    fn on_mtu(&mut self, mtu: u64) {
        Layer::on_mtu(self, mtu);
    }

    fn adopt(&mut self, now: Time, window: AdoptedWindow) {
        Layer::adopt(self, now, window);
    }

    fn cwnd(&self) -> u64 {
        Layer::cwnd(self)
    }

    fn pacing_rate(&self) -> Option<u64> {
        Layer::pacing_rate(self)
    }

    fn send_quantum(&self) -> u64 {
        Layer::send_quantum(self)
    }

    fn state(&self) -> State {
        Layer::state(self)
    }

    fn ssthresh(&self) -> Option<u64> {
        Layer::ssthresh(self)
    }

    fn snapshot(&self) -> Snapshot {
        Layer::snapshot(self)
    }
}
