//! Warnings about options that are taken, and do less than one may expect.

use super::Plan;
use crate::options::Format;

impl Plan {
    /// Returns warnings about the options.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let options = &self.options;
        let mut warnings: Vec<_> = options.without_effect.warnings().collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        if options.threads > cores {
            warnings.push(format!("-t {}: there are {cores} cores", options.threads));
        }
        if options.warm_up_time.is_some() && options.duration.is_none() {
            warnings.push("--warm-up-time has no effect without -D".into());
        }
        if self.protocol.is_http1_alone() && options.max_concurrent_streams > 1 {
            let most = options.max_concurrent_streams;
            warnings.push(format!(
                "-m {most}: a connection of HTTP/1.1 has one request open at a time"
            ));
        }
        if options.histogram && options.format != Format::H2load {
            warnings.push("--histogram has no effect without --format h2load".into());
        }
        if !self.protocol.is_quic() {
            warnings.extend(options.warnings_over_tcp());
        }
        warnings
    }
}
