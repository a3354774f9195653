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
    Backend, Counters, Dataplane, DriverOptions, Ecn, ListenerId, SocketOptions, TxMeta,
    bind_group, open,
};

const DATAGRAM: usize = 1350;
const TRAIN: usize = 48;
const LISTENER: ListenerId = ListenerId(0);
const NAP: Duration = Duration::from_millis(20);

static STOP: AtomicBool = AtomicBool::new(false);

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let backend: Backend = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let seconds: f64 = arguments.next().as_deref().unwrap_or("2").parse()?;
    let train = if arguments.next().is_some() { 1 } else { TRAIN };

    let (announce, announced) = mpsc::channel();
    let receiver = thread::spawn(move || receive(backend, &announce));
    let target = announced.recv()?;
    let sender = thread::spawn(move || send(backend, target, train));
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
        received.rx_datagrams as f64 / received.rx_buffers.max(1) as f64,
    );
    println!("sender {sent:?}\nreceiver {received:?}");
    Ok(())
}

fn receive(backend: Backend, announce: &mpsc::Sender<SocketAddr>) -> Result<Counters, Failure> {
    let bound = bind_group(
        LISTENER,
        "127.0.0.1:0".parse()?,
        1,
        &SocketOptions::default(),
    )?;
    let target = bound[0].local_addr();
    let mut driver = open(backend, &DriverOptions::default(), bound)?.driver;
    announce.send(target)?;
    while !STOP.load(Ordering::Relaxed) {
        driver.wait(Some(NAP))?;
        while driver.receive(64, |_, _| ())? == 64 {}
    }
    Ok(driver.counters())
}

fn send(backend: Backend, target: SocketAddr, train: usize) -> Result<Counters, Failure> {
    let bound = bind_group(
        LISTENER,
        "127.0.0.1:0".parse()?,
        1,
        &SocketOptions::default(),
    )?;
    let mut driver = open(backend, &DriverOptions::default(), bound)?.driver;
    let meta = TxMeta {
        listener: LISTENER,
        peer: target,
        local: None,
        ecn: Ecn::Ect0,
        len: train * DATAGRAM,
        segment: DATAGRAM,
    };
    while !STOP.load(Ordering::Relaxed) {
        if driver.transmit(16, |_| Some(meta))?.blocked {
            driver.wait(Some(NAP))?;
        }
    }
    Ok(driver.counters())
}
