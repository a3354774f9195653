//! Devices: attached, configured and started, and what is known of them.
#![expect(unsafe_code, reason = "calls of the shim")]

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::eal::Eal;
use crate::error::{Error, check};
use crate::ffi::{self, Info, Stats};
use crate::pool::Pool;
use crate::xdp::{XdpLink, XdpOpening, XdpOptions};

/// A device as the library names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// PCI address, which was among the options of the environment.
    Pci(String),
    /// A virtual device: its name, and its arguments with a comma in front.
    Virtual {
        /// Name, which begins with the driver's and is used once.
        name: String,
        /// Arguments.
        arguments: String,
    },
}

/// Options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// One device with all queue pairs, or one device per queue pair.
    pub devices: Vec<Device>,
    /// Interface behind devices of AF_XDP, whose names say their queues in order; `None` for others.
    pub xdp: Option<XdpOptions>,
    /// Number of queue pairs.
    pub queues: u16,
    /// Descriptors of a receive queue; the driver may round them.
    pub rx_descriptors: u16,
    /// Descriptors of a transmit queue; the driver may round them.
    pub tx_descriptors: u16,
    /// Buffers of a queue pair.
    pub buffers: u32,
    /// Buffers of a queue pair that the driver keeps for good once it is started: those in its fill ring.
    pub kept: u32,
    /// Room of a buffer behind its headroom, bytes.
    pub room: u16,
    /// MTU to set, or `None` to leave the device's.
    pub mtu: Option<u16>,
    /// Whether multicast frames must arrive, even if every frame must for it.
    pub multicast: bool,
}

/// Facts about a port that only opening tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Name of the driver.
    pub driver: String,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u16,
    /// Whether the port verifies checksums.
    pub rx_checksum: bool,
    /// Whether the port writes checksums.
    pub tx_checksum: bool,
    /// Whether the port spreads frames over its queues by a hash that it lets us set.
    pub rss: bool,
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames that the port dropped because a queue was full.
    pub missed: u64,
    /// Frames that arrived broken.
    pub receive_errors: u64,
    /// Frames dropped for want of a buffer.
    pub no_buffer: u64,
    /// Frames that the port could not send.
    pub send_errors: u64,
}

/// Looks for buffers that the port has sent, when it is closed, and the pause between them.
const DRAINS: (u32, Duration) = (50, Duration::from_millis(1));

/// State that all queues share: the started ports and their buffer pools. Dropped in this order.
#[derive(Debug)]
pub(crate) struct Inner {
    /// XDP program, removed before the devices: their driver then finds none.
    xdp: Option<XdpLink>,
    ports: Vec<Started>,
    /// After the ports, which hold buffers of them.
    pools: Vec<Pool>,
    /// Queue pairs of a device.
    per_device: u16,
    /// Buffers that the drivers keep for good.
    kept: u32,
    facts: PortFacts,
    /// The environment runs as long as this: after everything that needs it.
    eal: Eal,
}

/// A port of the library that was started. Nobody else in the process has it.
#[derive(Debug)]
struct Started(u16);

/// Ports of the library that are in use. The library finds a PCI device by its address as often as it is asked.
static IN_USE: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Held while devices are opened or closed, which the library does not let several threads do at a time.
static CONTROL: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Started {
    /// Takes a port of the library for its own.
    fn claim(port: u16, name: &CStr) -> Result<Self, Error> {
        if lock(&IN_USE).insert(port) {
            return Ok(Self(port));
        }
        let step = format!("open {}", name.to_string_lossy());
        let mut taken = Error::because(step, "another port of this process has the device");
        taken.errno = libc::EBUSY;
        Err(taken)
    }
}

impl Inner {
    /// Opens the devices of a port.
    pub(crate) fn open(eal: Eal, options: &PortOptions) -> Result<Self, Error> {
        let per_device = match options.devices.len() {
            1 => options.queues,
            count if count == usize::from(options.queues) => 1,
            count => {
                let cause = format!("{count} devices for {} queues", options.queues);
                return Err(Error::because("open a port", cause));
            }
        };
        let pools: Result<Vec<Pool>, Error> =
            (0..options.queues).map(|_| Pool::new(&eal, options.buffers, options.room)).collect();
        let mut inner = Inner {
            xdp: None,
            ports: Vec::new(),
            pools: pools?,
            per_device,
            kept: options.kept * u32::from(options.queues),
            facts: PortFacts::of(&Info::default()),
            eal,
        };
        // Held before a program is looked for, which may be the placeholder of another port. Released before `inner` is
        // dropped, which takes it where a device does not open.
        let _control = lock(&CONTROL);
        let mut xdp = match &options.xdp {
            Some(xdp) => Some(XdpOpening::new(xdp, options.queues)?),
            None => None,
        };
        for (index, device) in options.devices.iter().enumerate() {
            let first = index * usize::from(per_device);
            let pools = &inner.pools[first..first + usize::from(per_device)];
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            let (started, facts) = start(device, first, options, pools, xdp.as_mut())?;
            inner.ports.push(started);
            inner.facts = facts;
        }
        inner.xdp = match xdp {
            Some(xdp) => Some(xdp.attach()?),
            None => None,
        };
        Ok(inner)
    }

    pub(crate) fn facts(&self) -> &PortFacts {
        &self.facts
    }

    /// Closes the devices. Returns the number of buffers that did not come back, without those that the drivers keep.
    pub(crate) fn close(mut self) -> u32 {
        self.xdp = None;
        let (rounds, pause) = DRAINS;
        for _ in 0..rounds {
            if self.missing() == 0 {
                break;
            }
            self.drain();
            #[expect(
                clippy::disallowed_methods,
                reason = "the kernel sends what is left meanwhile, and tells nobody"
            )]
            std::thread::sleep(pause);
        }
        self.close_ports();
        self.missing()
    }

    fn close_ports(&mut self) {
        let _control = lock(&CONTROL);
        self.ports.clear();
    }

    /// Has drivers return the buffers of frames that have left.
    fn drain(&mut self) {
        for queue in 0..u16::try_from(self.pools.len()).unwrap_or(0) {
            let (port, queue) = self.place(queue);
            // SAFETY: no frames. The port runs, and nobody else uses the queue: this is the only reference to it.
            unsafe { ffi::sg_send(port, queue, std::ptr::null(), 0) };
        }
    }

    /// Returns the number of buffers in use, without those that the drivers keep.
    fn missing(&self) -> u32 {
        let missing: u32 = self.pools.iter().map(Pool::missing).sum();
        missing.saturating_sub(self.kept)
    }

    /// Returns the library's port and queue of a worker.
    pub(crate) fn place(&self, queue: u16) -> (u16, u16) {
        let device = usize::from(queue / self.per_device);
        (self.ports[device].0, queue % self.per_device)
    }

    pub(crate) fn pool(&self, queue: u16) -> &Pool {
        &self.pools[usize::from(queue)]
    }

    pub(crate) fn eal(&self) -> &Eal {
        &self.eal
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.xdp = None;
        self.close_ports();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // SAFETY: the port is this value's alone, and no queue that uses it is left: each keeps `Inner`. `CONTROL` is held
        // by whoever opens or closes the port.
        unsafe {
            ffi::sg_port_stop(self.0);
            ffi::sg_port_remove(self.0);
        }
        lock(&IN_USE).remove(&self.0);
    }
}

/// Opens and starts a device with a queue pair for each of `pools`; the first has the index `first` among all of the port.
fn start(
    device: &Device,
    first: u32,
    options: &PortOptions,
    pools: &[Pool],
    mut xdp: Option<&mut XdpOpening>,
) -> Result<(Started, PortFacts), Error> {
    let queues = u16::try_from(pools.len()).unwrap_or(u16::MAX);
    let name = probe(device, xdp.as_deref())?;
    // SAFETY: reads the name, which ends with a zero.
    let port = unsafe { ffi::sg_port_named(name.as_ptr()) };
    let port = u16::try_from(port)
        .map_err(|_| Error::because(format!("open {name:?}"), "no driver made a port of it"))?;
    let started = Started::claim(port, &name)?;
    let mut info = Info::default();
    // SAFETY: the shim writes into a local.
    check("ask the port", unsafe { ffi::sg_port_info(port, &raw mut info) })?;
    let most = info.max_rx_queues.min(info.max_tx_queues);
    if queues > most {
        let cause = format!("it has {most}; {queues} are needed, one per core of the group");
        return Err(Error::because("queues of the port", cause));
    }
    // SAFETY: the port was claimed above.
    let configured = unsafe { ffi::sg_port_configure(port, queues, options.mtu.unwrap_or(0)) };
    check("configure the port", configured)?;
    let (rx, tx) = (options.rx_descriptors, options.tx_descriptors);
    for (queue, pool) in (0..queues).zip(pools) {
        // SAFETY: the pool is dropped after the port is closed: `Inner` drops its ports first, and a port that does not
        // start is closed here.
        let made = unsafe { ffi::sg_queue_setup(port, queue, rx, tx, pool.raw()) };
        check("set a queue up", made)?;
        if let Some(xdp) = &mut xdp {
            xdp.add_queue(first + u32::from(queue))?;
        }
    }
    if let Some(xdp) = xdp {
        xdp.end_device()?;
    }
    // SAFETY: the port is configured, with all its queues.
    let up = unsafe { ffi::sg_port_start(port, options.multicast.into()) };
    check("start the port", up)?;
    // SAFETY: the shim writes into a local.
    check("ask the port", unsafe { ffi::sg_port_info(port, &raw mut info) })?;
    Ok((started, PortFacts::of(&info)))
}

/// Attaches a device, and returns the name of its port.
fn probe(device: &Device, xdp: Option<&XdpOpening>) -> Result<CString, Error> {
    let more = xdp.map_or_else(String::new, XdpOpening::arguments);
    let (name, devargs) = match device {
        // Found when the environment started.
        Device::Pci(address) => (address, None),
        Device::Virtual { name, arguments } => (name, Some(format!("{name}{arguments}{more}"))),
    };
    let step = format!("open {name}");
    let text = |text: String| {
        CString::new(text).map_err(|_| Error::because(&*step, "its name holds a zero byte"))
    };
    if let Some(devargs) = devargs {
        let devargs = text(devargs)?;
        // SAFETY: reads a string that ends with a zero.
        check(&step, unsafe { ffi::sg_probe(devargs.as_ptr()) })?;
    }
    text(name.clone())
}

impl PortFacts {
    fn of(info: &Info) -> Self {
        let end = info.driver.iter().position(|byte| *byte == 0);
        let driver = &info.driver[..end.unwrap_or(info.driver.len())];
        Self {
            driver: String::from_utf8_lossy(driver).into_owned(),
            mac: info.mac,
            mtu: info.mtu,
            rx_checksum: info.rx_checksum != 0,
            tx_checksum: info.tx_checksum != 0,
            rss: info.rss != 0,
        }
    }
}

impl PortStats {
    /// Reads the counters of the library's port; all zero where the driver has none.
    pub(crate) fn read(port: u16) -> Self {
        let mut stats = Stats::default();
        // SAFETY: the shim writes into a local.
        unsafe { ffi::sg_stats(port, &raw mut stats) };
        Self {
            received: stats.received,
            sent: stats.sent,
            missed: stats.missed,
            receive_errors: stats.receive_errors,
            no_buffer: stats.no_buffer,
            send_errors: stats.send_errors,
        }
    }
}
