//! Divides the memory budget of the process among those that use it.

use sluicegate_config::{Config, Limits};

use crate::boot::descriptors;

/// Part of the limit that is promised to the buffers of requests, percent. Blocks that are read ahead, or half sent, come on top. Their
/// accounts are fair to clients; a process that is at its limit refuses all alike.
const BUFFERS: u64 = 50;
/// Part of the limit that files in memory may take, percent. Those that have left while they are sent may take as much again.
const FILES: u64 = 12;
/// Part of the limit for responses that are being compressed, percent.
const COMPRESSORS: u64 = 12;
/// Least memory of a worker for responses that are being compressed, bytes: the dearest one fits.
const LEAST_COMPRESSORS: u64 = 3 << 20;
/// Fronts of a worker: HTTP/3, and TCP. Each has buffers.
const FRONTS: u64 = 2;
/// What each user of the budget may take at most, whatever is configured, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::boot) struct Parts {
    /// The whole budget; 0 for none.
    limit: u64,
    /// Memory of the buffers of an account.
    buffers: u64,
    /// Memory for files.
    files: u64,
    /// Memory of a worker's compressors.
    pub(in crate::boot) compressors: u64,
}

impl Parts {
    /// Divides `limit` among the workers of a configuration; 0 for none.
    pub(in crate::boot) fn of(limit: u64, config: &Config) -> Parts {
        Parts::for_workers(limit, descriptors::workers(config))
    }

    fn for_workers(limit: u64, workers: u64) -> Parts {
        let part = |percent, users| match limit {
            0 => u64::MAX,
            limit => limit / 100 * percent / users,
        };
        let workers = workers.max(1);
        Parts {
            limit,
            buffers: part(BUFFERS, FRONTS * workers),
            files: part(FILES, 1),
            compressors: part(COMPRESSORS, workers).max(LEAST_COMPRESSORS),
        }
    }

    /// Returns the memory of each account of a worker, bytes: one stream has its buffer however little there is.
    pub(in crate::boot) fn worker_buffer(self, limits: &Limits) -> u64 {
        limits.worker_buffer.min(self.buffers.max(limits.stream_buffer))
    }

    /// Returns limits whose memory for files is within its part.
    pub(in crate::boot) fn for_site(self, limits: &Limits) -> Limits {
        Limits { file_cache: limits.file_cache.min(self.files), ..limits.clone() }
    }

    /// Warns of keys that the limit leaves less for.
    pub(in crate::boot) fn advise(self, config: &Config) {
        let (limits, usual) = (&config.limits, Config::embedded());
        // A key that nobody has set follows the limit silently; buffers are too large for any limit that is set.
        let buffers = config.server.memory_limit.is_some()
            || limits.worker_buffer != usual.limits.worker_buffer;
        let cache = limits.file_cache != usual.limits.file_cache;
        let compress = config.compress.memory != usual.compress.memory;
        let bounded = self.for_site(limits).file_cache;
        let keys = [
            (buffers, "limits.worker_buffer", limits.worker_buffer, self.worker_buffer(limits)),
            (cache, "limits.file_cache", limits.file_cache, bounded),
            (compress, "compress.memory", config.compress.memory, self.compressors),
        ];
        for (is_set, key, configured, in_effect) in keys {
            if is_set && in_effect < configured {
                tracing::warn!(
                    key,
                    configured,
                    in_effect,
                    memory_limit = self.limit,
                    "server.memory_limit leaves less than a key says: set the key to what is in effect or below, or raise \
                     memory_limit"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_requests_take_half_of_the_limit_at_most() {
        let limits = Limits { worker_buffer: 1 << 30, ..Config::embedded().limits };
        let of = |limit, workers| Parts::for_workers(limit, workers).worker_buffer(&limits);
        assert_eq!(of(600 << 20, 2), (600 << 20) / 100 * 50 / 4);
        assert_eq!(of(64 << 30, 4), 1 << 30);
        assert_eq!(of(0, 64), 1 << 30, "no limit bounds nothing");
        assert_eq!(of(1 << 20, 64), limits.stream_buffer);
    }

    /// Whatever the keys say.
    #[test]
    fn all_that_is_bounded_together_leaves_an_eighth_of_the_limit() {
        let limits =
            Limits { worker_buffer: 1 << 40, file_cache: 1 << 40, ..Config::embedded().limits };
        for (limit, workers) in [(512 << 20, 1), (600 << 20, 2), (64 << 30, 64)] {
            let parts = Parts::for_workers(limit, workers);
            let cache = parts.for_site(&limits).file_cache;
            let fronts = FRONTS * workers;
            let all =
                fronts * parts.worker_buffer(&limits) + 2 * cache + workers * parts.compressors;
            assert!(all <= limit / 8 * 7, "{all} of {limit}");
            assert!(all >= limit / 5 * 4, "{all} of {limit}");
        }
        let unlimited = Parts::for_workers(0, 2);
        assert_eq!(unlimited.for_site(&limits).file_cache, 1 << 40);
        assert_eq!(unlimited.compressors, u64::MAX);
    }
}
