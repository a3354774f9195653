//! Sends datagrams over loopback as fast as they go, with GSO and GRO, and reports what arrived; with a third argument
//! sends each datagram by itself.
//!
//! `cargo run --release --example flood -- [mio|io_uring|auto] [seconds] [single]`
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_dataplane::{
    Acquired, Backend, Budget, Counters, Dataplane, Driver, DriverOptions, Ecn, ListenerId, NoRoom,
    SocketOptions, Steering, TxMeta, open_group,
};

const DATAGRAM: usize = 1350;
const LISTENER: ListenerId = ListenerId(0);
const NAP: Duration = Duration::from_millis(20);

static STOP: AtomicBool = AtomicBool::new(false);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let backend: Backend = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let seconds: f64 = arguments.next().as_deref().unwrap_or("2").parse()?;
    let gso = arguments.next().is_none();

    let (announce, announced) = mpsc::channel();
    let receiver = thread::spawn(move || receive(backend, &announce));
    let target = announced.recv()?;
    let sender = thread::spawn(move || send(backend, target, gso));
    let start = Instant::now();
    thread::sleep(Duration::from_secs_f64(seconds));
    STOP.store(true, Ordering::Relaxed);
    let took = start.elapsed().as_secs_f64();
    let sent = sender.join().map_err(|_| "the sender panicked")??;
    let received = receiver.join().map_err(|_| "the receiver panicked")??;

    let rate = |count: u64| count as f64 / took;
    println!(
        "{backend}: sent {:.0} datagrams/s, received {:.0} datagrams/s, {:.2} Gbit/s, {:.1} per buffer",
        rate(sent.tx_datagrams),
        rate(received.rx_datagrams),
        rate(received.rx_bytes) * 8e-9,
        received.rx_datagrams as f64 / received.rx_messages.max(1) as f64,
    );
    println!("sender {sent:?}\nreceiver {received:?}");
    Ok(())
}

/// Opens a driver with one listener on loopback and returns both.
fn open(backend: Backend, gso: bool) -> Result<(Driver, SocketAddr), Failure> {
    let acquired = Acquired::bind(LISTENER, "127.0.0.1:0".parse()?, 1)?;
    let address = acquired.local_addr();
    let socket = SocketOptions { gso, ..SocketOptions::default() };
    let group =
        open_group(backend, vec![acquired], 1, Steering::Hash, &socket, DriverOptions::default())?;
    let seed = group.seeds.into_iter().next().ok_or("a group has a seed")?;
    Ok((seed.open()?.driver, address))
}

fn receive(backend: Backend, announce: &mpsc::Sender<SocketAddr>) -> Result<Counters, Failure> {
    let (mut driver, address) = open(backend, true)?;
    announce.send(address)?;
    let budget = Budget::of_datagrams(3000);
    while !STOP.load(Ordering::Relaxed) {
        driver.wait(Some(NAP))?;
        while driver.receive(budget, |_, _| ())? == budget.datagrams {}
    }
    Ok(driver.counters())
}

fn send(backend: Backend, peer: SocketAddr, gso: bool) -> Result<Counters, Failure> {
    let (mut driver, _) = open(backend, gso)?;
    let meta = TxMeta { peer, local: None, ecn: Ecn::Ect0, departure: None };
    while !STOP.load(Ordering::Relaxed) {
        let refused = driver.transmit(Budget::of_datagrams(768), |out| {
            loop {
                match out.room(LISTENER, DATAGRAM) {
                    Ok(_) => out.commit(DATAGRAM, &meta),
                    Err(reason) => return reason,
                }
            }
        })?;
        if refused == NoRoom::Blocked {
            driver.wait(Some(NAP))?;
        }
    }
    Ok(driver.counters())
}
