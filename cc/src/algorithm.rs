//! The description of an algorithm, as the registry lists it.

use crate::{Controller, OptionSpec, Options};

/// Parameters of a new path, from which its controller is built.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    /// Datagram size, bytes of UDP payload.
    pub mtu: u64,
    /// Initial window, datagrams (RFC 9002 §7.2).
    pub initial_window_packets: u64,
    /// Seed for algorithms that draw random numbers.
    pub seed: u64,
}

/// Description of an algorithm: everything that configuration, help and the transport need.
#[derive(Clone, Copy, Debug)]
pub struct Algorithm {
    /// Name in a configuration.
    pub name: &'static str,
    /// One sentence for operators, with the specification.
    pub summary: &'static str,
    /// Options that an operator may set.
    pub options: &'static [OptionSpec],
    /// Whether the algorithm paces by a model of the path's rate and round trip. Such a model needs round trips that
    /// hosts can tell from their own delays.
    pub model_based: bool,
    /// Whether losses and CE marks adjust the window, and nothing else does: Reno, CUBIC and their kin.
    pub has_window_law: bool,
    /// Whether the response to CE marks is scalable (RFC 9331 §4.3). The transport then marks packets ECT(1), and never ECT(0),
    /// because queues count on the one response or the other.
    pub scalable: bool,
    /// Builds a controller.
    pub build: fn(&Init, &Options) -> Box<dyn Controller>,
}

impl Algorithm {
    /// Returns the algorithm's options at their defaults.
    pub fn defaults(&self) -> Options {
        Options::defaults(self.options)
    }

    /// Returns whether a controller can resume the capacity of an earlier connection ([`crate::CarefulResume`]): losses and marks
    /// adjust a window, and marks are not routine.
    pub const fn can_resume(&self) -> bool {
        self.has_window_law && !self.scalable
    }

    /// Builds a controller; `options` come from [`Algorithm::defaults`] of the same algorithm.
    pub fn controller(&self, init: &Init, options: &Options) -> Box<dyn Controller> {
        (self.build)(init, options)
    }
}
