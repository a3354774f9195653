//! What a session needs of its worker for the time of a call.

use std::sync::Arc;
use std::time::Instant;

use super::Counters;
use crate::http::exchange::ring::{OriginRing, Place};
use crate::http::files::Cache;
use crate::http::route::Site;
use crate::observe::access::AccessLog;

/// A worker's things, lent to one of its connections' sessions.
pub struct SessionContext<'a> {
    /// What is served, as configured now.
    pub site: &'a Arc<Site>,
    /// For new sessions.
    pub h3: &'a quiche::h3::Config,
    /// To the origin thread, where there is one.
    pub origin_ring: Option<&'a mut OriginRing>,
    /// Of the worker's sessions.
    pub counters: &'a mut Counters,
    /// Files that the worker answers by itself.
    pub cache: &'a mut Cache,
    /// The worker's end of the access log, where there is one.
    pub access: Option<&'a mut AccessLog>,
    /// The connection's slot and serial number.
    pub slot: usize,
    /// See [`Place::serial`].
    pub serial: u64,
    /// The turn's time.
    pub now: Instant,
}

impl SessionContext<'_> {
    /// Where messages about a stream's exchange shall go.
    pub(super) fn place(&self, stream: u64) -> Place {
        Place {
            slot: self.slot,
            serial: self.serial,
            stream,
        }
    }
}
