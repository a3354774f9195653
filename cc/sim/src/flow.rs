//! A flow: its data, and how its ends behave.

use std::time::Duration;

use sluicegate_cc::{Algorithm, PathChange};

use super::application::{Pages, ReceiveWindow};
use super::aqm::Ecn;
use super::source::Source;

/// One sender and its receiver.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Start time.
    pub start: Duration,
    /// Data that it sends.
    pub source: Source,
    /// Datagram size, bytes; the controller's own.
    pub mtu: u64,
    /// ECN field of every datagram.
    pub ecn: Ecn,
    /// Packets that the receiver acknowledges with one ACK.
    pub ack_every: u32,
    /// Longest time for which the receiver delays an ACK.
    pub max_ack_delay: Duration,
    /// Changes of the receiver's address, in order of time. The bottleneck stays the same.
    pub path_changes: Vec<(Duration, PathChange)>,
    /// Flow control of the receiver; `None` never limits.
    pub receive_window: Option<ReceiveWindow>,
    /// Pages that the data is requested in; `None` requests everything at once.
    pub pages: Option<Pages>,
}

impl Flow {
    /// Returns the flow with the ECN field that a transport gives the packets of an algorithm.
    #[must_use]
    pub const fn marked_for(mut self, algorithm: &Algorithm) -> Self {
        self.ecn = if algorithm.scalable { Ecn::Ect1 } else { Ecn::Ect0 };
        self
    }

    /// Returns a flow of 1,200-byte datagrams, marked ECT(0), that begins at once, with an ACK for every second packet or after
    /// 25 ms.
    pub const fn new(source: Source) -> Self {
        Self {
            start: Duration::ZERO,
            source,
            mtu: 1_200,
            ecn: Ecn::Ect0,
            ack_every: 2,
            max_ack_delay: Duration::from_millis(25),
            path_changes: Vec::new(),
            receive_window: None,
            pages: None,
        }
    }
}
