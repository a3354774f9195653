//! Warnings of load balancers that send no header of the PROXY protocol.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two warnings about a listener.
const INTERVAL: Duration = Duration::from_secs(60);

/// Connections that should have begun with a header, by listener. All fronts share them.
#[derive(Debug, Default)]
pub struct MissingHeaders(Mutex<BTreeMap<Arc<str>, Missing>>);

/// Connections of a listener.
#[derive(Debug, Default)]
struct Missing {
    warned_at: Option<Instant>,
    /// Connections since then.
    count: u64,
}

impl MissingHeaders {
    /// Notes a connection that is closed because it has no valid header, and warns if it is time to.
    pub(super) fn note(&self, listener: &Arc<str>, sender: IpAddr, now: Instant) {
        if let Some(connections) = self.due(listener, now) {
            tracing::warn!(
                %listener, %sender, connections,
                "connections from networks in `proxy_protocol` are closed because they do not begin with a header of the PROXY \
                 protocol: have the load balancer send it, or remove its network"
            );
        }
    }

    /// Returns the number of the connections since the last warning, this one included, if another warning is due.
    fn due(&self, listener: &Arc<str>, now: Instant) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = all.entry(Arc::clone(listener)).or_default();
        missing.count += 1;
        let recent = |at: Instant| now.saturating_duration_since(at) < INTERVAL;
        if missing.warned_at.is_some_and(recent) {
            return None;
        }
        missing.warned_at = Some(now);
        Some(std::mem::take(&mut missing.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_base::clock;

    #[test]
    fn each_listener_is_warned_of_once_a_minute_with_the_number_of_connections() {
        let (missing, now) = (MissingHeaders::default(), clock::now());
        let [one, other] = ["one", "other"].map(Arc::from);
        let due = |listener, seconds| missing.due(listener, now + Duration::from_secs(seconds));
        assert_eq!(due(&one, 0), Some(1));
        assert_eq!((due(&one, 0), due(&one, 59)), (None, None));
        assert_eq!(due(&other, 59), Some(1));
        assert_eq!(due(&one, 60), Some(3));
        assert_eq!(due(&one, 61), None);
    }
}
