//! The thread that carries packets over a link in real time.

use std::io;
use std::os::fd::AsFd as _;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::link::{End, Link};
use super::port::Port;
use super::realtime::{Priority, await_readable, prioritize};

/// Most packets that are read from one end before packets that are due are written.
const BATCH: usize = 32;

/// Longest packet of a port, bytes.
const LARGEST: usize = 1 << 16;

/// Longest sleep, after which the thread looks whether it shall end.
const NAP: Duration = Duration::from_millis(10);

/// A running emulation of a link between two ports.
#[derive(Debug)]
pub struct Emulator {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Ended>>>,
}

/// A link after its emulation, and how that went.
#[derive(Debug)]
pub struct Ended {
    /// The link, with packets that were still on their way.
    pub link: Link,
    /// Packets that an end did not take.
    pub refused: u64,
    /// Whether the thread ran before all ordinary ones.
    pub prioritized: bool,
}

impl Emulator {
    /// Starts to carry packets between two ends. The times of the link count from the first packet.
    ///
    /// # Errors
    ///
    /// The system has no thread to spare.
    pub fn start(link: Link, client: Box<dyn Port>, server: Box<dyn Port>) -> io::Result<Self> {
        let has_headers = client.has_headers() && server.has_headers();
        let link = if has_headers { link } else { link.of_payloads() };
        let stop = Arc::new(AtomicBool::new(false));
        let carrier = Carrier {
            client,
            server,
            buffer: vec![0; LARGEST],
            clock: Clock { start: None },
            ended: Ended { link, refused: 0, prioritized: false },
        };
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("linkem".to_owned());
        let thread = thread.spawn(move || carrier.run(&stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the emulation and returns the link.
    ///
    /// # Errors
    ///
    /// An end broke during the emulation.
    ///
    /// # Panics
    ///
    /// The emulator's thread did.
    pub fn stop(mut self) -> io::Result<Ended> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is taken here alone");
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What went wrong was for `stop` to tell.
            let _ = thread.join();
        }
    }
}

/// The time of the link.
struct Clock {
    start: Option<Instant>,
}

impl Clock {
    fn now(&self) -> Duration {
        self.start.map_or(Duration::ZERO, |start| start.elapsed())
    }

    /// Returns the time of a packet that enters; that of the first is the start.
    #[expect(clippy::disallowed_methods, reason = "this is the emulator's clock")]
    fn entering(&mut self) -> Duration {
        self.start.get_or_insert_with(Instant::now).elapsed()
    }
}

struct Carrier {
    client: Box<dyn Port>,
    server: Box<dyn Port>,
    buffer: Vec<u8>,
    clock: Clock,
    ended: Ended,
}

impl Carrier {
    fn run(mut self, stop: &AtomicBool) -> io::Result<Ended> {
        self.ended.prioritized = prioritize(Priority::Emulator);
        while !stop.load(Ordering::Relaxed) {
            let mut more = false;
            for towards in End::BOTH {
                more |= self.read(towards)?;
                self.write();
            }
            if !more {
                self.wait()?;
            }
        }
        Ok(self.ended)
    }

    /// Lets waiting packets enter. Returns whether there may be more of them.
    fn read(&mut self, towards: End) -> io::Result<bool> {
        let port = match towards {
            End::Client => &mut self.server,
            End::Server => &mut self.client,
        };
        for _ in 0..BATCH {
            let Some(length) = port.receive(&mut self.buffer)? else {
                return Ok(false);
            };
            let now = self.clock.entering();
            let direction = self.ended.link.towards_mut(towards);
            direction.enter(now, &self.buffer[..length]);
        }
        Ok(true)
    }

    /// Writes packets that are due.
    fn write(&mut self) {
        for towards in End::BOTH {
            let port = match towards {
                End::Client => &mut self.client,
                End::Server => &mut self.server,
            };
            let direction = self.ended.link.towards_mut(towards);
            while let Some(packet) = direction.take_due(self.clock.now()) {
                self.ended.refused += u64::from(!port.send(&packet));
                direction.recycle(packet);
            }
        }
    }

    /// Sleeps until a packet waits at an end or is due at one.
    fn wait(&self) -> io::Result<()> {
        let due = self.ended.link.next_due();
        let limit = due.map_or(NAP, |due| due.saturating_sub(self.clock.now()).min(NAP));
        if limit.is_zero() {
            return Ok(());
        }
        await_readable([self.client.as_fd(), self.server.as_fd()], limit)
    }
}
