//! Compresses the body of one response, off the origin thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use sluicegate_base::clients::ClientPrefix;
use sluicegate_base::clients::shared_room::SharedRoom;
use sluicegate_config::Compress;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::counters::{Algorithm, CompressionCounters};
use super::encoder::{Encoder, Then};

/// Pieces that an origin thread has compressed at a time, on threads beside it. The others wait in order, so that the threads
/// which read files stay free.
const AT_A_TIME: usize = 2;
/// Largest input of which the origin thread compresses what has not left the compressor yet, bytes. It takes some tens of
/// microseconds, no more than to pass it to another thread and back.
const AT_ONCE: usize = 2 * 1024;
/// Largest piece, bytes.
const PIECE: usize = 64 * 1024;

const KIB: u64 = 1024;

/// Error of a compressor. The body cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the compressor failed")]
pub(crate) struct Failed;

/// The compression of an origin thread.
#[derive(Debug)]
pub struct Compressors {
    running: Arc<Semaphore>,
    counters: RefCell<CompressionCounters>,
    /// Memory of the bodies, bytes. A client that reads slowly holds it for long.
    memory: SharedRoom,
    /// Most that they may take, whatever is configured, bytes.
    most: u64,
}

/// Returns the memory that a body takes while it is compressed, bytes: what the libraries were measured to take.
fn cost(algorithm: Algorithm, settings: &Compress) -> u64 {
    match algorithm {
        Algorithm::Gzip => 384 * KIB,
        Algorithm::Zstd if settings.zstd_level <= 3 => 1280 * KIB,
        Algorithm::Brotli if settings.br_level <= 4 => 1536 * KIB,
        Algorithm::Zstd | Algorithm::Brotli => 3072 * KIB,
    }
}

/// Compresses within the memory that is configured.
impl Default for Compressors {
    fn default() -> Compressors {
        Compressors::within(u64::MAX)
    }
}

impl Compressors {
    /// Compresses within `most` bytes of memory.
    pub fn within(most: u64) -> Compressors {
        Compressors {
            running: Arc::new(Semaphore::new(AT_A_TIME)),
            counters: RefCell::default(),
            memory: SharedRoom::default(),
            most,
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> CompressionCounters {
        CompressionCounters { memory: self.memory.taken(), ..self.counters.borrow().clone() }
    }

    /// Begins a body for a client; `None` if there is no memory for another one.
    pub(super) fn begin(
        self: &Rc<Self>,
        algorithm: Algorithm,
        settings: &Compress,
        client: ClientPrefix,
    ) -> Option<BodyEncoder> {
        let cost = cost(algorithm, settings);
        let room = match settings.memory {
            0 => self.most,
            memory => self.most.min(memory),
        };
        let mut counters = self.counters.borrow_mut();
        if !self.memory.take(client, cost, room, cost) {
            counters.skipped += 1;
            return None;
        }
        counters.begun[algorithm] += 1;
        Some(BodyEncoder {
            compressors: Rc::clone(self),
            client,
            algorithm,
            cost,
            encoder: Some(Encoder::new(algorithm, settings)),
            kept: 0,
        })
    }
}

/// A body that is being compressed.
pub(crate) struct BodyEncoder {
    compressors: Rc<Compressors>,
    client: ClientPrefix,
    algorithm: Algorithm,
    cost: u64,
    /// `None` while another thread has it, and after a failure.
    encoder: Option<Encoder>,
    /// Input since the last flush, bytes: the compressor may have kept all of it.
    kept: usize,
}

impl std::fmt::Debug for BodyEncoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("BodyEncoder");
        debug.field("algorithm", &self.algorithm);
        debug.finish_non_exhaustive()
    }
}

impl Drop for BodyEncoder {
    fn drop(&mut self) {
        self.compressors.memory.give_back(self.client, self.cost);
    }
}

impl BodyEncoder {
    /// Returns whether the compressor may hold back input.
    pub(crate) fn keeps_input(&self) -> bool {
        self.kept > 0
    }

    /// Compresses a block, and returns the output that is ready.
    ///
    /// # Errors
    /// The compressor failed.
    pub(crate) async fn data(&mut self, mut block: Bytes) -> Result<Vec<Bytes>, Failed> {
        let mut output = Vec::new();
        while !block.is_empty() {
            let piece = block.split_to(block.len().min(PIECE));
            output.append(&mut self.run(piece, Then::More).await?);
        }
        Ok(output)
    }

    /// Returns the rest of the output for the input so far.
    ///
    /// # Errors
    /// The same as of [`BodyEncoder::data`].
    pub(crate) async fn flush(&mut self) -> Result<Vec<Bytes>, Failed> {
        self.run(Bytes::new(), Then::Flush).await
    }

    /// Completes the body, and returns its last output.
    ///
    /// # Errors
    /// The same as of [`BodyEncoder::data`].
    pub(crate) async fn finish(mut self) -> Result<Vec<Bytes>, Failed> {
        self.run(Bytes::new(), Then::Finish).await
    }

    async fn run(&mut self, piece: Bytes, then: Then) -> Result<Vec<Bytes>, Failed> {
        let mut encoder = self.encoder.take().ok_or(Failed)?;
        let length = piece.len();
        self.kept = self.kept.saturating_add(length);
        let result = if self.kept <= AT_ONCE {
            let result = encoder.run(&piece, then);
            (encoder, result)
        } else {
            let turn = Arc::clone(&self.compressors.running).acquire_owned().await;
            let work = spawn_blocking(move || {
                let _turn = turn;
                let result = encoder.run(&piece, then);
                (encoder, result)
            });
            work.await.map_err(|_| Failed)?
        };
        let (encoder, output) = result;
        let output = output.map_err(|_| Failed)?;
        self.encoder = Some(encoder);
        if then != Then::More {
            self.kept = 0;
        }
        let mut counters = self.compressors.counters.borrow_mut();
        counters.input[self.algorithm] += length as u64;
        counters.output[self.algorithm] += output.iter().map(Bytes::len).sum::<usize>() as u64;
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc::channel;
    use std::task::{Context, Waker};

    use sluicegate_config::Config;

    use super::*;
    use sluicegate_base::address::ValidatedAddress;

    /// A handler that waits for a file or an upstream must not wait for a compressor, too.
    #[test]
    fn only_small_pieces_are_compressed_on_the_origin_thread() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            // The only other thread is busy until the test releases it.
            let (release, released) = channel::<()>();
            let busy = spawn_blocking(move || released.recv());
            let settings = Config::embedded().compress;
            let compressors = Rc::<Compressors>::default();
            let client = "192.0.2.1".parse::<ValidatedAddress>().unwrap().into();
            let mut context = Context::from_waker(Waker::noop());

            let mut small = compressors.begin(Algorithm::Gzip, &settings, client).unwrap();
            let work = pin!(small.data(Bytes::from(vec![7; AT_ONCE])));
            assert!(work.poll(&mut context).is_ready());

            let mut large = compressors.begin(Algorithm::Gzip, &settings, client).unwrap();
            let mut work = pin!(large.data(Bytes::from(vec![7; AT_ONCE + 1])));
            assert!(work.as_mut().poll(&mut context).is_pending());
            release.send(()).unwrap();
            busy.await.unwrap().unwrap();
            work.await.unwrap();
        });
    }

    #[test]
    fn slow_readers_of_one_client_leave_memory_to_others() {
        let settings = Compress { memory: 10 * (384 << 10), ..Config::embedded().compress };
        let compressors = Rc::<Compressors>::default();
        let begin = |host: u8| {
            let client = format!("192.0.2.{host}").parse::<ValidatedAddress>();
            compressors.begin(Algorithm::Gzip, &settings, client.unwrap().into())
        };
        let mut open: Vec<_> = std::iter::from_fn(|| begin(1)).collect();
        assert_eq!(open.len(), 5);
        for host in 2..7 {
            open.push(begin(host).expect("every client has one while there is memory"));
        }
        assert!(begin(7).is_none());
        assert_eq!(compressors.counters().memory, settings.memory);
        drop(open);
        assert_eq!(compressors.counters().memory, 0);
        let little = Rc::new(Compressors::within(500 << 10));
        let client = "192.0.2.1".parse::<ValidatedAddress>().unwrap().into();
        let unlimited = Compress { memory: 0, ..settings };
        let _one = little.begin(Algorithm::Gzip, &unlimited, client).unwrap();
        assert!(little.begin(Algorithm::Gzip, &unlimited, client).is_none());
    }
}
