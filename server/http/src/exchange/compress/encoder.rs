//! Compresses bytes piece by piece, without waiting for anything.

use std::io;

use async_compression::Level;
use async_compression::brotli::EncoderParams;
use async_compression::codecs::{BrotliEncoder, EncodeV2, GzipEncoder, ZstdEncoder};
use async_compression::core::util::{PartialBuffer, WriteBuffer};
use async_compression::zstd::CParameter;
use bytes::Bytes;
use sluicegate_config::Compress;

use super::counters::Algorithm;

/// Window of Brotli and Zstandard, as a power of two: far less memory than their defaults of 4 and 2 MiB for nearly the same
/// size. Every client supports it (RFC 9659 demands 8 MiB of those of Zstandard).
const WINDOW: u8 = 18;
/// Block of Brotli, as a power of two: the bytes that it compresses at a time.
const BROTLI_BLOCK: i32 = 16;
/// Bytes of an output block.
const OUTPUT: usize = 16 * 1024;

/// Step that follows a piece of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing: the compressor may keep bytes back for better compression.
    More,
    /// Return all output that the client needs to decode the input so far.
    Flush,
    /// Complete the body.
    Finish,
}

/// State of one compressed body.
pub(super) struct Encoder(Box<dyn EncodeV2 + Send>);

impl Encoder {
    pub(super) fn new(algorithm: Algorithm, settings: &Compress) -> Encoder {
        let level = |level: u64| i32::try_from(level).unwrap_or(i32::MAX);
        Encoder(match algorithm {
            Algorithm::Brotli => {
                let params = EncoderParams::default()
                    .quality(Level::Precise(level(settings.br_level)))
                    .window_size(WINDOW.into())
                    .block_size(BROTLI_BLOCK);
                Box::new(BrotliEncoder::new(params))
            }
            Algorithm::Zstd => {
                let window = CParameter::window_log(WINDOW.into());
                let level = level(settings.zstd_level);
                Box::new(ZstdEncoder::new_with_params(level, &[window]))
            }
            Algorithm::Gzip => {
                let level = Level::Precise(level(settings.gzip_level));
                Box::new(GzipEncoder::new(level.into()))
            }
        })
    }

    /// Compresses a piece, and returns the output in blocks.
    ///
    /// # Errors
    /// The library failed, or the body is complete already.
    pub(super) fn run(&mut self, input: &[u8], then: Then) -> io::Result<Vec<Bytes>> {
        let mut input = PartialBuffer::new(input);
        let mut output = Output::default();
        while !input.unwritten().is_empty() {
            output.fill(|room| self.0.encode(&mut input, room))?;
        }
        let mut done = then == Then::More;
        while !done {
            done = output.fill(|room| match then {
                Then::Finish => self.0.finish(room),
                Then::More | Then::Flush => self.0.flush(room),
            })?;
        }
        Ok(output.finish())
    }
}

/// Blocks of output, of which the last has room.
#[derive(Default)]
struct Output {
    full: Vec<Bytes>,
    last: Vec<u8>,
    /// Bytes of `last` that are output.
    used: usize,
}

impl Output {
    fn fill<T>(
        &mut self,
        run: impl FnOnce(&mut WriteBuffer<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.used == self.last.len() {
            let full = std::mem::replace(&mut self.last, vec![0; OUTPUT]);
            self.used = 0;
            if !full.is_empty() {
                self.full.push(full.into());
            }
        }
        let mut room = WriteBuffer::new_initialized(&mut self.last[self.used..]);
        let result = run(&mut room);
        self.used += room.written_len();
        result
    }

    fn finish(mut self) -> Vec<Bytes> {
        if self.used > 0 {
            // A block in flight takes no more memory than its bytes.
            self.full.push(Bytes::copy_from_slice(&self.last[..self.used]));
        }
        self.full
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read as _, Write as _};

    use async_compression::codecs::{BrotliDecoder, DecodeV2, ZstdDecoder};
    use proptest::prelude::*;
    use sluicegate_config::Config;

    use super::*;
    use sluicegate_base::observe::metrics::Label as _;

    /// Returns the original of a whole compressed body.
    pub(crate) fn decoded(algorithm: Algorithm, body: &[u8]) -> Vec<u8> {
        if algorithm == Algorithm::Gzip {
            let mut original = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(body);
            decoder.read_to_end(&mut original).unwrap();
            return original;
        }
        decode(algorithm, body, true)
    }

    /// Returns what the beginning of a body says of the original.
    fn decoded_so_far(algorithm: Algorithm, body: &[u8]) -> Vec<u8> {
        if algorithm == Algorithm::Gzip {
            let mut decoder = flate2::write::GzDecoder::new(Vec::new());
            decoder.write_all(body).unwrap();
            decoder.flush().unwrap();
            return decoder.get_ref().clone();
        }
        decode(algorithm, body, false)
    }

    fn decode(algorithm: Algorithm, body: &[u8], whole: bool) -> Vec<u8> {
        let mut decoder: Box<dyn DecodeV2> = match algorithm {
            Algorithm::Brotli => Box::new(BrotliDecoder::new()),
            Algorithm::Zstd | Algorithm::Gzip => Box::new(ZstdDecoder::new()),
        };
        let mut input = PartialBuffer::new(body);
        let (mut original, mut room) = (Vec::new(), [0; 4096]);
        loop {
            let mut output = WriteBuffer::new_initialized(&mut room);
            let done = decoder.decode(&mut input, &mut output).unwrap();
            let written = output.written_len();
            original.extend_from_slice(&room[..written]);
            if done {
                break;
            }
            if written == 0 && input.unwritten().is_empty() {
                assert!(!whole, "the body is cut");
                break;
            }
        }
        original
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn any_pieces_come_back_and_each_flushed_one_at_once(
            pieces in prop::collection::vec((prop::collection::vec(0u8..4, 0..3000), any::<bool>()), 0..12),
            random in prop::collection::vec(any::<u8>(), 0..40_000),
        ) {
            let settings = Config::embedded().compress;
            for algorithm in Algorithm::ALL {
                let mut encoder = Encoder::new(*algorithm, &settings);
                let (mut original, mut body) = (Vec::new(), Vec::new());
                let all = pieces.iter().map(|(piece, flush)| (piece, *flush)).chain([(&random, true)]);
                for (piece, flush) in all {
                    let then = if flush { Then::Flush } else { Then::More };
                    original.extend_from_slice(piece);
                    for block in encoder.run(piece, then).unwrap() {
                        prop_assert!(block.len() <= OUTPUT && !block.is_empty());
                        body.extend_from_slice(&block);
                    }
                    if flush {
                        prop_assert_eq!(&decoded_so_far(*algorithm, &body), &original);
                    }
                }
                for block in encoder.run(&[], Then::Finish).unwrap() {
                    body.extend_from_slice(&block);
                }
                prop_assert_eq!(decoded(*algorithm, &body), original);
            }
        }
    }

    /// A client that decodes with less memory would refuse the body.
    #[test]
    fn the_window_is_a_quarter_of_a_mebibyte() {
        let settings = Config::embedded().compress;
        let mut encoder = Encoder::new(Algorithm::Zstd, &settings);
        let body = encoder.run(&[7; 1 << 20], Then::Finish).unwrap().concat();
        // RFC 8878 §3.1.1.1: no single segment, and the window behind the descriptor.
        assert_eq!(body[4] & 0x20, 0);
        assert_eq!(body[5] >> 3, WINDOW - 10);
    }
}
