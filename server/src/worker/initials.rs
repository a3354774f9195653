//! Passes the shares of Initials that an endpoint wants to its driver.

use std::io::ErrorKind;
use std::time::Instant;

use sluicegate_dataplane::Dataplane;
use sluicegate_quic::endpoint::Change;
use sluicegate_quic::endpoint::Endpoint;

use crate::h3::Http3Session;

/// Has the driver drop other shares of Initials if the endpoint's window has ended and says so: at most ten times a second, and never
/// without a flood.
pub(super) fn filter_initials(
    driver: &mut impl Dataplane,
    endpoint: &mut Endpoint<Http3Session>,
    now: Instant,
) {
    let Some(change) = endpoint.end_initial_window(now) else {
        return;
    };
    match (driver.filter_initials(endpoint.initial_filter().as_ref()), change) {
        (Ok(()), Change::Begins(per_second)) => tracing::warn!(
            initials_per_second = per_second,
            "a flood of Initial packets: the kernel drops most of them before this worker receives them, so that its connections go on; \
             clients that connect meanwhile need several attempts; see quic.retries_per_second"
        ),
        (Ok(()), Change::Ends) => {
            tracing::info!(
                "the flood of Initial packets has ended: this worker receives all again"
            );
        }
        (Ok(()), Change::Shares) => {}
        (Err(error), _) => {
            endpoint.on_filter_refused();
            // A backend without a kernel in front of it needs none.
            if error.kind() != ErrorKind::Unsupported {
                tracing::warn!(
                    %error,
                    "the system allows no socket filter (SO_ATTACH_FILTER): a flood of Initial packets will take this worker's time from its \
                     connections; allow it in the container's seccomp profile"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
