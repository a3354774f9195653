//! A veth pair between two network namespaces: that of this program and its clients, and the server's.
#![expect(
    unsafe_code,
    reason = "the offload of a veth's checksums is set by an ioctl that has no safe wrapper"
)]

use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::contender::{Contender, Kind};

/// UDP port of the server, and of its peer where that is no HTTP client.
const PORT: u16 = 4433;

/// A veth pair; the server's end is in a namespace of its own. All of it disappears with this program.
#[derive(Debug)]
pub(crate) struct Network {
    number: u8,
    /// Process that keeps the server's namespace until its input ends.
    holder: Child,
}

impl Network {
    /// Makes the pair of this number.
    pub(crate) fn new(number: u8) -> Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["-n", "sh", "-c", "echo there; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("unshare")?;
        let output = holder.stdout.take().context("output of the namespace")?;
        BufReader::new(output).read_line(&mut String::new())?;
        let network = Self { number, holder };
        let (ours, theirs) = (network.clients_interface(), network.interface());
        let client = network.client();
        run(&format!(
            "ip link set lo up && ip link add {ours} type veth peer name {theirs} && \
             ip link set {theirs} netns {} && ip addr add {client}/24 dev {ours} && ip link set {ours} up",
            network.holder.id()
        ))?;
        network.within(&format!(
            "ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/{theirs}/disable_ipv6 && ip link set {theirs} up"
        ))?;
        // A frame whose checksum was left to a card that is not there would arrive wrong.
        set_checksum_offload(&ours, false)?;
        Ok(network)
    }

    /// Sets the server's end up for a contender: only with AF_PACKET the kernel must not have the address.
    pub(crate) fn prepare(&self, contender: &Contender) -> Result<()> {
        let (interface, server) = (self.interface(), self.server().ip());
        let mut script = format!("ip addr flush dev {interface}");
        if contender.dataplane != Kind::AfPacket {
            script += &format!(" && ip addr add {server}/24 dev {interface}");
        }
        self.within(&script)?;
        let program = std::env::current_exe()?;
        let state = if contender.offloads { "on" } else { "off" };
        self.within(&format!("{} checksums {interface} {state}", program.display()))
    }

    /// Returns the name of the server's end.
    pub(crate) fn interface(&self) -> String {
        format!("sga{}", self.number)
    }

    fn clients_interface(&self) -> String {
        format!("sgb{}", self.number)
    }

    /// Returns the server's address.
    pub(crate) fn server(&self) -> SocketAddr {
        SocketAddr::new(self.host(1), PORT)
    }

    /// Returns the address of the server's peer.
    pub(crate) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.host(2), PORT)
    }

    fn client(&self) -> IpAddr {
        self.host(2)
    }

    fn host(&self, host: u8) -> IpAddr {
        Ipv4Addr::new(10, 98, self.number, host).into()
    }

    /// Returns a command that runs a program in the server's namespace.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let holder = self.holder.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &holder, "-n"]).args(words);
        command
    }

    fn within(&self, script: &str) -> Result<()> {
        let output = self.command(&["sh", "-c", script]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{script}: {said}");
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Without it the kernel removes the pair only some time after the namespace.
        let _ = run(&format!("ip link del {}", self.clients_interface()));
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn run(script: &str) -> Result<()> {
    let output = Command::new("sh").args(["-c", script]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{script}: {said}");
    Ok(())
}

/// Sets whether an interface leaves the checksums of frames to what is behind it. Without this offload the kernel cuts
/// GSO batches into frames before they enter a veth.
pub(crate) fn set_checksum_offload(interface: &str, on: bool) -> Result<()> {
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
