//! Groups of workers.

use std::time::Duration;

use sluicegate_dataplane::{Backend, DriverOptions, SocketOptions};
use toml::de::DeValue;

use super::dpdk::Dpdk;
use crate::error::Error;
use crate::field::{Field, Part};
use crate::print;
use crate::schema::{Key, Kind, choice, count, duration, name, option_toml, seconds};
use crate::section::Section;
use crate::value::{Item, whole};

const MAX_CORE: u64 = 4095;

table! {
    /// Group of workers. A worker is a thread that is pinned to a core; all workers of a group use the same backend for
    /// their datagrams. Without any `[[group]]` there is one, called "default", with every key at its default.
    #[derive(Eq)]
    pub struct Group = [[group]], check: check {
        /// Name of the group, which listeners refer to. Must differ from the other groups' names.
        name: String { kind: name(), required: "\"default\"", reload: Restart },
        /// Backend that receives and sends the group's datagrams. io_uring makes fewer system calls and needs Linux
        /// 6.1; mio uses epoll. With dpdk the workers drive a network device themselves, see [group.dpdk]. auto takes
        /// io_uring where the system allows it, else mio, as in most containers, and logs that. If a backend that is
        /// named here cannot be opened, the server does not start.
        backend: Backend { kind: Kind::Backend, default: "\"auto\"", examples: ["\"mio\""], reload: Restart },
        /// Cores that the workers run on, one worker each, at most 256. auto takes every core that the process may use.
        /// List them to keep cores for other work, or to stay near the network card's memory: a worker allocates its
        /// buffers and connections after it was pinned, so they are in the memory of its own NUMA node. A core that is
        /// listed twice runs two workers, which take turns. The server warns of that, and refuses it with spin_always.
        /// It is seldom faster, but dpdk may need as many workers as a network interface has queues.
        cores: Cores { kind: Kind::Cores, default: "\"auto\"", examples: ["[0, 1]", "\"0-3,6\""], reload: Restart },
        /// Time for which a worker keeps polling after its last datagram before it sleeps. More lowers the latency of
        /// the next datagram and costs CPU time. A worker that polled three times in vain sleeps at once, until
        /// datagrams come within that time of each other again. With 0s the worker always sleeps at once. Threads
        /// that are no workers stay off the cores of workers that poll, if there are others.
        spin: Duration { kind: duration(seconds(0), seconds(1)), default: "\"0s\"", examples: ["\"50us\""], reload: Restart },
        /// Whether the workers poll all the time and never sleep: the lowest latency, for all of their cores' CPU time.
        /// List cores that nothing else needs.
        spin_always: bool { kind: Kind::Switch, default: "false", reload: Restart },
        /// Class in which the system schedules the workers. normal shares their cores fairly with other programs. fifo
        /// and rr are the real-time classes SCHED_FIFO and SCHED_RR: a worker goes before every normal thread and takes
        /// the core at once. Danger: a busy worker then keeps its core from everything else, kernel threads and
        /// interrupt threads of the network card among them, which may stop the network and lock out administrators.
        /// Use them only with cores that nothing else needs (isolcpus), and leave at least one core to the system: with spin
        /// or spin_always on all cores the server does not start. They need CAP_SYS_NICE.
        scheduler: Scheduler { kind: choice(Scheduler::WORDS), default: "\"normal\"", reload: Restart },
        /// Priority of the workers among real-time threads, with scheduler fifo or rr. Threads of interrupts commonly
        /// have 50: stay below.
        scheduler_priority: u16 { kind: count(1, 99, ""), default: "1", reload: Restart },
        /// Port of the backend dpdk: the table [group.dpdk] below. Other backends ignore it, and dpdk ignores the keys
        /// of sockets and buffers from here to that table.
        dpdk: Dpdk { kind: Kind::Table(Dpdk::TABLE), unset: "no port", reload: Restart },
        ..
        /// Options that the sockets of the group's listeners are bound with.
        socket: SocketOptions,
        ..
        /// Options that the workers' drivers are opened with.
        driver: DriverOptions,
    }
}

words! {
    /// Class in which the system schedules workers.
    pub enum Scheduler {
        /// Workers share their cores fairly with other threads.
        Normal = "normal",
        /// SCHED_FIFO: a worker runs until it sleeps.
        Fifo = "fifo",
        /// SCHED_RR: workers of one priority on one core take turns.
        RoundRobin = "rr",
    }
}

/// Refuses the backend dpdk without a port, and workers that share a core and never leave it.
fn check(group: &mut Group, section: &Section<'_>) -> Result<(), Error> {
    if let Some(core) = group.cores.shared()
        && group.spin_always
    {
        let found = format!("core {core} twice in `cores` with `spin_always`");
        let expected = "a core for each worker that polls all the time";
        let at = section.position("cores");
        return Err(section.source.error(at, found, expected));
    }
    if group.backend != Backend::Dpdk {
        return Ok(());
    }
    let missing = match &group.dpdk {
        Dpdk { device: None, .. } => "device",
        Dpdk { addresses, .. } if addresses.is_empty() => "addresses",
        _ => return Ok(()),
    };
    let found = format!("`backend = \"dpdk\"` without `dpdk.{missing}`");
    let expected = "a table [group.dpdk] with `device` and `addresses` below the [[group]]";
    Err(section.source.error(section.position("backend"), found, expected))
}

/// The cores of a group, one worker each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// Every core that the process may use.
    Auto,
    /// A worker on each of these cores, in the order of the file; never empty.
    List(Vec<usize>),
}

impl Cores {
    /// Returns a core that is to run more than one worker.
    #[must_use]
    pub fn shared(&self) -> Option<usize> {
        let Self::List(list) = self else {
            return None;
        };
        let mut sorted = list.clone();
        sorted.sort_unstable();
        let pair = sorted.windows(2).find(|pair| pair[0] == pair[1])?;
        Some(pair[0])
    }
}

impl Field for Cores {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        let list: Option<Vec<u64>> = match &*item.value {
            DeValue::String(word) if word == "auto" => return Ok(Self::Auto),
            DeValue::String(ranges) => core_ranges(ranges),
            DeValue::Array(entries) => {
                entries.iter().map(|e| e.get_ref().as_integer().and_then(whole)).collect()
            }
            _ => None,
        };
        let list = list.filter(|l| !l.is_empty() && l.iter().all(|core| *core <= MAX_CORE));
        let list = list.ok_or_else(|| item.refused())?;
        let list = list.into_iter().map(usize::try_from).collect::<Result<_, _>>();
        list.map(Self::List).map_err(|_| item.refused())
    }

    fn print(&self, _: &Key) -> Option<String> {
        Some(match self {
            Self::Auto => print::text("auto"),
            Self::List(list) => format!("{list:?}"),
        })
    }
}

/// Reads `0-3,6`; `None` for anything else and for cores that are too large to expand.
fn core_ranges(text: &str) -> Option<Vec<u64>> {
    let number = |word: &str| {
        let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        word.parse().ok().filter(|core| plain && *core <= MAX_CORE)
    };
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (number(first.trim())?, number(last.trim())?);
        if last < first || list.len() > usize::try_from(MAX_CORE).unwrap_or(usize::MAX) {
            return None;
        }
        list.extend(first..=last);
    }
    Some(list)
}

/// Makes the options that the dataplane declares keys of a group.
macro_rules! dataplane_options {
    ($($options:ty),+) => {$(
        impl Part for $options {
            fn keys() -> Vec<Key> {
                Self::SPECS.iter().map(Key::of).collect()
            }

            fn read(section: &Section<'_>) -> Result<Self, Error> {
                let mut options = Self::default();
                for spec in Self::SPECS {
                    if let Some(item) = section.item(spec.name)? {
                        let value = item.option()?;
                        options.set(spec.name, value).map_err(|_| item.refused())?;
                    }
                }
                Ok(options)
            }

            fn values(&self) -> Vec<Option<String>> {
                let values = Self::values(self);
                values.map(|(spec, value)| Some(option_toml(spec, value))).collect()
            }

            fn needs_restart(&self, new: &Self, place: &str, changed: &mut Vec<String>) {
                for ((spec, old), (_, new)) in Self::values(self).zip(Self::values(new)) {
                    if old != new {
                        changed.push(format!("{place}.{}", spec.name));
                    }
                }
            }
        }
    )+};
}

dataplane_options!(SocketOptions, DriverOptions);
