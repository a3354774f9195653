//! One end of a test of datagrams: a driver of the dataplane in a process of its own, which measures itself.
#![expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]

use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use sluicegate_dataplane::{
    Acquired, Backend, Budget, Dataplane, DevicePortOptions, Driver, DriverOptions, Ecn, Group,
    ListenerId, NoRoom, PortDevice, PortHandle, Ports, SocketOptions, Steering, TxMeta, open_group,
};

use crate::cpu::Cpu;
use crate::figures::percentile;

const LISTENER: ListenerId = ListenerId(0);
/// Payloads of floods and of pings, bytes.
const FLOOD: usize = 1350;
const PING: usize = 100;
/// Datagrams of one call.
const BUDGET: Budget = Budget::of_datagrams(256);
/// Longest sleep without a look at the clock.
const NAP: Duration = Duration::from_millis(10);
/// Time after which a ping is lost.
const LOST: Duration = Duration::from_millis(200);
/// Time before the measurement, and after it.
const MARGIN: Duration = Duration::from_millis(200);

/// Task of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Sends as fast as it can.
    Flood,
    /// Receives.
    Sink,
    /// Sends one datagram after the other and measures the time until each is back.
    Ping,
    /// Returns what it receives.
    Echo,
}

/// Arguments of a node.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArguments {
    /// Backend of sockets, or device of a port
    #[arg(long)]
    pub(crate) dataplane: String,
    /// Task
    #[arg(long, value_enum)]
    pub(crate) role: Role,
    /// Address to use
    #[arg(long)]
    pub(crate) local: SocketAddr,
    /// Address of the other end
    #[arg(long)]
    pub(crate) peer: SocketAddr,
    /// Length of the measurement
    #[arg(long)]
    pub(crate) seconds: f64,
}

/// Figures of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// Datagrams sent by a flood, received by a sink, returned by an echo, answered to a ping.
    pub(crate) datagrams: f64,
    pub(crate) seconds: f64,
    pub(crate) cpu: Cpu,
    /// Round-trip times of a ping, microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Measured {
    fn print(&self) {
        let Self { datagrams, seconds, cpu, p50, p99 } = self;
        println!("{datagrams} {seconds} {} {} {p50} {p99}", cpu.process, cpu.machine);
    }

    /// Parses what [`Measured::print`] wrote.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let words = line.split_whitespace().map(str::parse::<f64>);
        let words = words.collect::<Result<Vec<f64>, _>>();
        let words = words.with_context(|| format!("a node said: {line}"))?;
        let [datagrams, seconds, process, machine, p50, p99] = words[..] else {
            return Err(anyhow!("a node said: {line}"));
        };
        Ok(Self { datagrams, seconds, cpu: Cpu { process, machine }, p50, p99 })
    }
}

/// Opens the driver, says `ready`, waits for a line, and prints what it measured.
pub(crate) fn run(arguments: &NodeArguments) -> Result<()> {
    let Opened { mut driver, port } = open(arguments)?;
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut node = Node {
        driver: &mut driver,
        meta: TxMeta { peer: arguments.peer, local: None, ecn: Ecn::Ect0, departure: None },
        window: Window::new(Duration::from_secs_f64(arguments.seconds)),
    };
    let mut times = Vec::new();
    match arguments.role {
        Role::Flood => node.flood()?,
        Role::Sink => node.sink()?,
        Role::Echo => node.echo()?,
        Role::Ping => times = node.ping()?,
    }
    let mut measured = node.window.measured()?;
    times.sort_by(f64::total_cmp);
    measured.p50 = percentile(&times, 50);
    measured.p99 = percentile(&times, 99);
    measured.print();
    drop(driver);
    if let Some((handle, _ports)) = port {
        let _ = handle.close();
    }
    Ok(())
}

struct Opened {
    driver: Driver,
    /// Closed after the driver.
    port: Option<(PortHandle, Ports)>,
}

fn open(arguments: &NodeArguments) -> Result<Opened> {
    let seed = |group: Group| group.seeds.into_iter().next().context("a seed");
    if let Ok(device) = arguments.dataplane.parse::<PortDevice>() {
        let options = DevicePortOptions {
            addresses: vec![(arguments.local.ip(), 24)],
            ..DevicePortOptions::new(device)
        };
        let ports = Ports::start(&[(&options, 1)])?;
        let opened = ports.open(&[(LISTENER, arguments.local)], 1, &options)?;
        let driver = seed(opened.group)?.open()?.driver;
        return Ok(Opened { driver, port: Some((opened.port, ports)) });
    }
    let backend: Backend = arguments.dataplane.parse()?;
    let acquired = Acquired::bind(LISTENER, arguments.local, 1)?;
    let (socket, options) = (SocketOptions::default(), DriverOptions::default());
    let group = open_group(backend, vec![acquired], 1, Steering::Hash, &socket, options)?;
    Ok(Opened { driver: seed(group)?.open()?.driver, port: None })
}

/// The time in which a node measures: it begins some time after the start and ends some time before the end.
struct Window {
    start: Instant,
    length: Duration,
    begin: Option<(Instant, u64, Cpu)>,
    end: Option<(Instant, u64, Cpu)>,
}

impl Window {
    fn new(length: Duration) -> Self {
        Self { start: Instant::now(), length, begin: None, end: None }
    }

    /// Returns whether the node goes on, which has done with `datagrams` so far.
    fn is_open(&mut self, datagrams: u64) -> Result<bool> {
        let now = Instant::now();
        let age = now.saturating_duration_since(self.start);
        let edge = if age < MARGIN {
            return Ok(true);
        } else if self.begin.is_none() {
            &mut self.begin
        } else if age >= MARGIN + self.length && self.end.is_none() {
            &mut self.end
        } else {
            return Ok(age < MARGIN * 2 + self.length);
        };
        *edge = Some((now, datagrams, Cpu::read("self")?));
        Ok(true)
    }

    /// Returns whether it measures now.
    fn measures(&self) -> bool {
        self.begin.is_some() && self.end.is_none()
    }

    fn measured(&self) -> Result<Measured> {
        let (begin, end) = self.begin.zip(self.end).context("too short a test")?;
        Ok(Measured {
            datagrams: (end.1 - begin.1) as f64,
            seconds: (end.0 - begin.0).as_secs_f64(),
            cpu: end.2.since(begin.2),
            ..Measured::default()
        })
    }
}

struct Node<'a> {
    driver: &'a mut Driver,
    meta: TxMeta,
    window: Window,
}

impl Node<'_> {
    fn flood(&mut self) -> Result<()> {
        let meta = self.meta;
        while self.window.is_open(self.driver.counters().tx_datagrams)? {
            let refused = self.driver.transmit(BUDGET, |out| {
                loop {
                    match out.room(LISTENER, FLOOD) {
                        Ok(_) => out.commit(FLOOD, &meta),
                        Err(reason) => return reason,
                    }
                }
            })?;
            let full = refused == NoRoom::Blocked;
            self.wait(if full { NAP } else { Duration::ZERO })?;
            // A port learns by what it receives where its peer is.
            self.driver.receive(BUDGET, |_, _| ())?;
        }
        Ok(())
    }

    fn sink(&mut self) -> Result<()> {
        let mut greeted = false;
        while self.window.is_open(self.driver.counters().rx_datagrams)? {
            self.wait(NAP)?;
            let received = self.driver.receive(BUDGET, |_, _| ())?;
            // As from any client: a port then knows the way to it.
            if received > 0 && !std::mem::replace(&mut greeted, true) {
                self.send(&[PING])?;
            }
        }
        Ok(())
    }

    fn echo(&mut self) -> Result<()> {
        let mut sizes = Vec::new();
        while self.window.is_open(self.driver.counters().tx_datagrams)? {
            self.wait(NAP)?;
            self.driver.receive(BUDGET, |_, bytes| sizes.push(bytes.len()))?;
            self.send(&sizes)?;
            sizes.clear();
        }
        Ok(())
    }

    /// Returns the round-trip times, microseconds.
    fn ping(&mut self) -> Result<Vec<f64>> {
        let mut times = Vec::new();
        let mut answered = 0;
        while self.window.is_open(answered)? {
            let sent = Instant::now();
            self.send(&[PING])?;
            let mut back = 0;
            while back == 0 && sent.elapsed() < LOST {
                self.wait(LOST)?;
                back = self.driver.receive(BUDGET, |_, _| ())?;
            }
            if back > 0 {
                answered += 1;
                if self.window.measures() {
                    times.push(sent.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        Ok(times)
    }

    /// Commits datagrams of these sizes, which leave with the next wait at the latest.
    fn send(&mut self, sizes: &[usize]) -> Result<()> {
        if sizes.is_empty() {
            return Ok(());
        }
        let meta = self.meta;
        self.driver.transmit(BUDGET, |out| {
            for size in sizes {
                if out.room(LISTENER, *size).is_err() {
                    break;
                }
                out.commit(*size, &meta);
            }
        })?;
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.driver.wait(Some(timeout))?;
        while self.driver.take_event().is_some() {}
        Ok(())
    }
}
