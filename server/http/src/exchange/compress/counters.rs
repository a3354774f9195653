//! Counters of one thread's compression.

use sluicegate_base::observe::metrics::{PerLabel, labels, metrics};

labels! {
    /// Algorithm by which a response is compressed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Algorithm {
        /// Zstandard.
        Zstd = "zstd",
        /// Brotli.
        Brotli = "br",
        /// gzip.
        Gzip = "gzip",
    }
}

metrics! {
    /// Totals since the start, and what is compressed now.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CompressionCounters: Sum {
        /// Responses, or files for the cache, whose compression began, by algorithm.
        pub begun: PerLabel<Algorithm> = counter("sluicegate_compress_responses_total" by "algorithm"),
        /// Bytes before compression, by algorithm.
        pub input: PerLabel<Algorithm> = counter("sluicegate_compress_input_bytes_total" by "algorithm"),
        /// Bytes after compression, by algorithm.
        pub output: PerLabel<Algorithm> = counter("sluicegate_compress_output_bytes_total" by "algorithm"),
        /// Responses that were sent uncompressed because those that are being compressed take all of compress.memory.
        pub skipped: u64 = counter("sluicegate_compress_skipped_total"),
        /// Memory promised to responses that are being compressed, bytes.
        pub memory: u64 = gauge("sluicegate_compress_memory_bytes"),
    }
}
