//! Sends datagrams to and fro over loopback, or wakes a sleeping worker to and fro, and reports the rate. With `perf stat`
//! or `strace -cf` around it, it tells what a turn with little to do costs.
//!
//! `cargo run --release --example pingpong -- [mio|io_uring|auto] [rounds] [datagrams a round; 0 wakes instead]`
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, Driver, DriverOptions, Ecn, ListenerId, SocketOptions,
    Steering, TxMeta, Waker, open_group,
};

const LISTENER: ListenerId = ListenerId(0);
const SIZE: usize = 100;
/// Time after which a round counts as lost.
const NAP: Duration = Duration::from_secs(1);

type Failure = Box<dyn Error + Send + Sync>;

/// One side: its driver, and the way to the other.
struct Side {
    driver: Driver,
    peer: SocketAddr,
    /// Ends the other side's sleep.
    waker: Waker,
    /// Messages of the other side.
    messages: mpsc::Receiver<()>,
    to_peer: mpsc::Sender<()>,
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let backend: Backend = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let rounds: usize = arguments.next().as_deref().unwrap_or("100000").parse()?;
    let datagrams: usize = arguments.next().as_deref().unwrap_or("1").parse()?;

    let ((to_first, first), (to_second, second)) = (mpsc::channel(), mpsc::channel());
    let echo = thread::spawn(move || -> Result<(), Failure> {
        let side = Side::open(backend, &to_first, &second)?;
        side.run(rounds, datagrams, false)
    });
    let side = Side::open(backend, &to_second, &first)?;
    let start = Instant::now();
    side.run(rounds, datagrams, true)?;
    let took = start.elapsed();
    echo.join().map_err(|_| "the other side panicked")??;
    let each = took.as_secs_f64() * 1e6 / rounds.max(1) as f64;
    println!("{backend}: {rounds} rounds of {datagrams} datagrams, {each:.2} µs each");
    Ok(())
}

/// A side's address, the waker of its driver, and the sender of messages to it.
type Introduction = (SocketAddr, Waker, mpsc::Sender<()>);

impl Side {
    /// Opens a driver with one listener on loopback, and exchanges addresses with the other side.
    fn open(
        backend: Backend,
        introduce: &mpsc::Sender<Introduction>,
        introduction: &mpsc::Receiver<Introduction>,
    ) -> Result<Self, Failure> {
        let acquired = Acquired::bind(LISTENER, "127.0.0.1:0".parse()?, 1)?;
        let address = acquired.local_addr();
        let (socket, options) = (SocketOptions::default(), DriverOptions::default());
        let group = open_group(backend, vec![acquired], 1, Steering::Hash, &socket, options)?;
        let seed = group.seeds.into_iter().next().ok_or("a group has a seed")?;
        let driver = seed.open()?.driver;
        let (from_peer, messages) = mpsc::channel();
        introduce.send((address, driver.waker(), from_peer))?;
        let (peer, waker, to_peer) = introduction.recv()?;
        Ok(Self { driver, peer, waker, messages, to_peer })
    }

    fn run(mut self, rounds: usize, datagrams: usize, first: bool) -> Result<(), Failure> {
        if first {
            self.send(datagrams)?;
        }
        for round in 1..=rounds {
            self.receive(datagrams)?;
            if !first || round < rounds {
                self.send(datagrams)?;
            }
        }
        // What was committed last may leave with a wait.
        self.driver.wait(Some(Duration::ZERO))?;
        Ok(())
    }

    fn send(&mut self, datagrams: usize) -> Result<(), Failure> {
        if datagrams == 0 {
            self.to_peer.send(())?;
            self.waker.wake();
            return Ok(());
        }
        let meta = TxMeta { peer: self.peer, local: None, ecn: Ecn::Ect0, departure: None };
        self.driver.transmit(Budget::of_datagrams(datagrams), |out| {
            let mut number = 0;
            while out.room(LISTENER, SIZE).is_ok() {
                // Each longer than the one before: none shares a batch.
                let len = 1 + number % SIZE;
                out.commit(len, &meta);
                number += 1;
            }
        })?;
        Ok(())
    }

    fn receive(&mut self, datagrams: usize) -> Result<(), Failure> {
        let mut missing = datagrams.max(1);
        while missing > 0 {
            self.driver.wait(Some(NAP))?;
            missing -= if datagrams == 0 {
                usize::from(self.messages.try_recv().is_ok())
            } else {
                let received = self.driver.receive(Budget::UNLIMITED, |_, _| ())?;
                received.min(missing)
            };
        }
        Ok(())
    }
}
