//! Controllers around controllers: to watch one, to inject faults, to change what it returns.

use std::fmt::Debug;

use crate::{Controller, Event, PacketState, PathChange, Sent, Snapshot, State, Time};

/// A controller around another one: every call goes to the inner one, but those that the layer makes its own.
///
/// What implements it is a [`Controller`]. The two traits name the same calls: with both in scope, a layer asks itself by
/// `Layer::cwnd(self)`.
pub trait Layer: Debug + Send + Sync {
    /// The controller inside.
    fn inner(&self) -> &dyn Controller;

    /// The controller inside.
    fn inner_mut(&mut self) -> &mut dyn Controller;

    /// As [`Controller::on_sent`].
    fn on_sent(&mut self, now: Time, sent: &Sent) -> PacketState {
        self.inner_mut().on_sent(now, sent)
    }

    /// As [`Controller::on_event`].
    fn on_event(&mut self, event: &Event<'_>) {
        self.inner_mut().on_event(event);
    }

    /// As [`Controller::on_app_limited`].
    fn on_app_limited(&mut self, now: Time, in_flight: u64) {
        self.inner_mut().on_app_limited(now, in_flight);
    }

    /// As [`Controller::on_persistent_congestion`].
    fn on_persistent_congestion(&mut self, now: Time) {
        self.inner_mut().on_persistent_congestion(now);
    }

    /// As [`Controller::on_discarded`].
    fn on_discarded(&mut self, now: Time, packet_number: u64) {
        self.inner_mut().on_discarded(now, packet_number);
    }

    /// As [`Controller::on_path_changed`].
    fn on_path_changed(&mut self, now: Time, change: PathChange) {
        self.inner_mut().on_path_changed(now, change);
    }

    /// As [`Controller::on_mtu`].
    fn on_mtu(&mut self, mtu: u64) {
        self.inner_mut().on_mtu(mtu);
    }

    /// As [`Controller::cwnd`].
    fn cwnd(&self) -> u64 {
        self.inner().cwnd()
    }

    /// As [`Controller::pacing_rate`].
    fn pacing_rate(&self) -> Option<u64> {
        self.inner().pacing_rate()
    }

    /// As [`Controller::send_quantum`].
    fn send_quantum(&self) -> u64 {
        self.inner().send_quantum()
    }

    /// As [`Controller::state`].
    fn state(&self) -> State {
        self.inner().state()
    }

    /// As [`Controller::ssthresh`].
    fn ssthresh(&self) -> Option<u64> {
        self.inner().ssthresh()
    }

    /// As [`Controller::snapshot`].
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
