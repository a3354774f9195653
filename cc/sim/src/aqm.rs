//! Active queue management: queues that drop or mark packets before they are full.

mod codel;
mod discipline;
mod dual_pi2;
mod fq_codel;
mod pie;

use std::fmt::Debug;

use self::codel::CoDel;
pub(super) use self::discipline::Discipline;
pub use self::discipline::{Ecn, QueuedPacket};
use self::dual_pi2::DualPi2;
use self::fq_codel::FqCoDel;
use self::pie::Pie;
/// The AQM of a bottleneck, with the parameters that its RFC recommends. `ecn` marks packets that are capable of ECN
/// instead of dropping them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aqm {
    /// Controlled delay (RFC 8289).
    CoDel {
        /// Whether packets are marked.
        ecn: bool,
    },
    /// A queue with CoDel for each flow (RFC 8290).
    FqCoDel {
        /// Whether packets are marked.
        ecn: bool,
    },
    /// The proportional integral controller (RFC 8033).
    Pie {
        /// Whether packets are marked.
        ecn: bool,
    },
    /// Two coupled queues, for classic and for scalable congestion control (RFC 9332).
    DualPi2,
}

impl Aqm {
    /// Returns whether packets that are capable of ECN are marked.
    pub const fn marks(self) -> bool {
        match self {
            Self::CoDel { ecn } | Self::FqCoDel { ecn } | Self::Pie { ecn } => ecn,
            Self::DualPi2 => true,
        }
    }

    /// Returns an empty queue with room for `limit` bytes.
    pub(super) fn queue<T: Debug + Send + 'static>(self, limit: u64) -> Box<dyn Discipline<T>> {
        match self {
            Self::CoDel { ecn } => Box::new(CoDel::new(limit, ecn)),
            Self::FqCoDel { ecn } => Box::new(FqCoDel::new(limit, ecn)),
            Self::Pie { ecn } => Box::new(Pie::new(limit, ecn)),
            Self::DualPi2 => Box::new(DualPi2::new(limit)),
        }
    }
}
