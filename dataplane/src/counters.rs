//! Counters of a driver.

use std::ops::AddAssign;

#[cfg(feature = "dpdk")]
use crate::backends::dpdk::reasons::REASONS;

/// A build without DPDK drives no ports.
#[cfg(not(feature = "dpdk"))]
const REASONS: [&str; 0] = [];

/// Declares the counters: a field's documentation is its help, and its name on a metrics page stands behind it.
macro_rules! counters {
    ($(#[doc = $help:literal] $field:ident = $name:literal,)*) => {
        /// Totals since the driver was opened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $(#[doc = $help] pub $field: u64,)*
            /// Counters of the frames of a port that the process drives itself; `None` where the kernel does.
            pub frames: Option<FrameCounters>,
        }

        impl Counters {
            /// Returns name, help and value of each counter, for a metrics page.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$(($name, $help.trim_start(), self.$field)),*]
            }
        }

        impl AddAssign<&Counters> for Counters {
            fn add_assign(&mut self, other: &Counters) {
                $(self.$field += other.$field;)*
                if let Some(frames) = &other.frames {
                    self.frames.get_or_insert_default().add(frames);
                }
            }
        }
    };
}

counters! {
    /// Datagrams received.
    rx_datagrams = "received_datagrams_total",
    /// Messages received from the kernel, each with one datagram or, with GRO, several.
    rx_messages = "received_messages_total",
    /// Bytes of UDP payload received.
    rx_bytes = "received_bytes_total",
    /// Datagrams dropped because they were larger than a receive buffer.
    rx_truncated = "received_datagrams_truncated_total",
    /// Receive attempts that failed.
    rx_errors = "receive_errors_total",
    /// Times that all receive buffers were in use (io_uring).
    rx_buffers_exhausted = "receive_buffers_exhausted_total",
    /// Datagrams dropped because their source port is 0.
    rx_port_zero = "received_datagrams_port_zero_total",
    /// Datagrams that the kernel dropped: the socket's receive buffer was full, or too many Initials arrived.
    rx_overflows = "receive_overflows_total",
    /// Datagrams sent.
    tx_datagrams = "sent_datagrams_total",
    /// Messages passed to the kernel, each with one datagram or, with GSO, several.
    tx_messages = "sent_messages_total",
    /// Bytes of UDP payload sent.
    tx_bytes = "sent_bytes_total",
    /// Messages dropped because the system refused to send them.
    tx_errors = "send_errors_total",
    /// GSO batches sent datagram by datagram because GSO was refused.
    tx_gso_fallbacks = "send_gso_fallbacks_total",
    /// Events of the network, such as an unreachable peer, that were dropped because too many came at once.
    events_dropped = "path_events_dropped_total",
}

/// Counters of the frames of a worker's queue, and of the device where it is the first queue of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters {
    /// Frames that the device received.
    pub received: u64,
    /// Frames that the device sent.
    pub sent: u64,
    /// Frames that the device could not send.
    pub send_errors: u64,
    /// Buffers of the queue that are in use, those that wait for frames included.
    pub buffers_in_use: u64,
    /// Received frames that were dropped, by reason.
    dropped: [u64; REASONS.len()],
}

impl FrameCounters {
    /// Returns the reasons for which received frames are dropped, each with the number of frames.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().zip(self.dropped)
    }

    /// Counts a dropped frame.
    #[cfg(feature = "dpdk")]
    pub(crate) fn on_drop(&mut self, reason: usize) {
        self.dropped[reason] += 1;
    }

    fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.sent += other.sent;
        self.send_errors += other.send_errors;
        self.buffers_in_use += other.buffers_in_use;
        for (sum, count) in self.dropped.iter_mut().zip(other.dropped) {
            *sum += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn counters_have_names_of_their_own_and_are_added_one_by_one() {
        let mut sum = Counters { rx_bytes: 1, ..Counters::default() };
        sum += &Counters { rx_bytes: 2, tx_bytes: 4, ..Counters::default() };
        let named = sum.named();
        let names: BTreeSet<_> = named.iter().map(|(name, _, _)| name).collect();
        assert_eq!(names.len(), named.len());
        let counted: Vec<_> = named.iter().filter(|(_, _, value)| *value > 0).collect();
        let expected = [
            ("received_bytes_total", "Bytes of UDP payload received.", 3),
            ("sent_bytes_total", "Bytes of UDP payload sent.", 4),
        ];
        assert_eq!(counted, expected.iter().collect::<Vec<_>>());
    }
}
