//! The network between servers and their clients, which share the namespace of this program: its loopback, or a veth pair for each
//! server.
#![expect(
    unsafe_code,
    reason = "the offload of a veth's checksums is set by an ioctl that has no safe wrapper"
)]

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum;

use crate::backend::{Backend, Driver};

/// Port of the first server.
const FIRST: u16 = 4430;

/// Address of the upstream: that of the clients of any server.
pub(crate) const UPSTREAM: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);

/// Address of the upstream for HTTP/2 without TLS.
pub(crate) const UPSTREAM_H2C: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8081);

/// A kind of network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Net {
    /// The loopback, with the MTU of an Ethernet
    Loopback,
    /// A veth pair for each server, whose end is in a namespace of its own
    Veth,
}

/// Where a server runs. A veth pair and the namespace at its end disappear with it.
#[derive(Debug)]
pub(crate) struct Host {
    number: u8,
    /// Process that keeps the server's namespace until its input ends; None if that is this one.
    holder: Option<Child>,
}

impl Host {
    /// Returns the host of this number in the namespace of this program.
    pub(crate) fn local(number: u8) -> Self {
        Self { number, holder: None }
    }

    /// Makes the host of this number, for a server with this backend.
    pub(crate) fn new(net: Net, number: u8, backend: Option<&Backend>) -> Result<Self> {
        let mut host = Self::local(number);
        if net == Net::Veth {
            let mut holder = Command::new("unshare")
                .args(["-n", "sh", "-c", "echo there; exec cat"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .context("unshare")?;
            let output = holder.stdout.take().context("output of the namespace")?;
            let process = holder.id();
            host.holder = Some(holder);
            BufReader::new(output).read_line(&mut String::new())?;
            host.connect(process, backend)?;
        }
        Ok(host)
    }

    /// Makes the pair.
    fn connect(&self, process: u32, backend: Option<&Backend>) -> Result<()> {
        let (ours, theirs) = (self.clients_interface(), self.interface());
        let (client, server) = (self.client(), self.address().ip());
        run(Command::new("sh").arg("-c").arg(format!(
            "ip link add {ours} type veth peer name {theirs} && ip addr add {client}/24 dev {ours} && ip link set {ours} up"
        )))?;
        // A frame whose checksum was left to a card that is not there would arrive wrong.
        set_checksum_offload(&ours, false)?;
        set_checksum_offload(&theirs, backend.is_some_and(|backend| backend.offloads))?;
        run(Command::new("ip").args(["link", "set", &theirs, "netns", &process.to_string()]))?;
        let mut script = format!(
            "ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/{theirs}/disable_ipv6 && ip link set {theirs} up"
        );
        if backend.is_none_or(|backend| backend.driver != Driver::AfPacket) {
            script += &format!(" && ip addr add {server}/24 dev {theirs}");
        }
        run(self.command("sh").args(["-c", &script]))
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Returns the name of the server's end of the pair.
    pub(crate) fn interface(&self) -> String {
        format!("sga{}", self.number)
    }

    fn clients_interface(&self) -> String {
        format!("sgb{}", self.number)
    }

    /// Returns the address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip(1), FIRST + u16::from(self.number))
    }

    pub(crate) fn client(&self) -> IpAddr {
        self.ip(2)
    }

    /// Returns the address of the upstream, which is where the clients are.
    pub(crate) fn upstream(&self) -> SocketAddr {
        SocketAddr::new(self.client(), UPSTREAM.port())
    }

    /// Returns its address for HTTP/2 without TLS.
    pub(crate) fn upstream_h2c(&self) -> SocketAddr {
        SocketAddr::new(self.client(), UPSTREAM_H2C.port())
    }

    fn ip(&self, end: u8) -> IpAddr {
        match self.holder {
            Some(_) => Ipv4Addr::new(10, 98, self.number, end).into(),
            None => Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// Returns a command that runs the program and the arguments that are added to it on a core.
    pub(crate) fn on_core(&self, core: usize) -> Command {
        let mut command = self.command("taskset");
        command.args(["-c", &core.to_string()]);
        command
    }

    fn command(&self, program: &str) -> Command {
        let Some(holder) = &self.holder else {
            return Command::new(program);
        };
        let mut command = Command::new("nsenter");
        command.args(["-t", &holder.id().to_string(), "-n", program]);
        command
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let interface = self.clients_interface();
        if let Some(holder) = &mut self.holder {
            // Without it the kernel removes the pair only some time after the namespace.
            let _ = run(Command::new("ip").args(["link", "del", &interface]));
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(())
}

/// Sets whether an interface leaves the checksums of frames to what is behind it. Without this offload the kernel cuts
/// GSO batches into frames before they enter a veth.
fn set_checksum_offload(interface: &str, on: bool) -> Result<()> {
    // `linux/ethtool.h`: ETHTOOL_STXCSUM and its value.
    let mut command: [u32; 2] = [0x17, on.into()];
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    // SAFETY: integers and pointers, for which all zeroes (null) is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    ensure!(interface.len() < request.ifr_name.len(), "a long name");
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut command).cast();
    // SAFETY: a local that ends with a zero in its name and points to a local of the command's size.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    ensure!(result == 0, "{}", std::io::Error::last_os_error());
    Ok(())
}
