//! Two network namespaces, and the TUN devices that join them to an emulator.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use thiserror::Error;

use super::emulator::Emulator;
use super::link::{End, Link};
use super::namespace::{Namespace, open_tun};
use super::port::Tun;

/// Address of the server, of the block for benchmarks (RFC 2544, appendix C.2.2).
pub const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// Address of the client.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Name of the device in either namespace.
const DEVICE: &str = "linkem";

/// Packets that wait at an end for the emulator to read them, before the kernel drops: 120 ms of 1 Gbit/s.
const QUEUE: u32 = 10_000;

/// Settings of the kernel: windows of TCP that no path here fills, nothing learnt from one connection for the next, and no packets
/// of IPv6, which has no addresses here.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv4/tcp_rmem", "4096 131072 134217728"),
    ("ipv4/tcp_wmem", "4096 131072 134217728"),
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv6/conf/all/disable_ipv6", "1"),
];

/// Time between two looks at the ports in use.
const LOOK: Duration = Duration::from_millis(20);

/// Why there is no network.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// No rights to make namespaces, or no such thing on this system.
    #[error("cannot make a network namespace (as root, or by `unshare --map-root-user`): {0}")]
    Namespace(#[source] io::Error),
    /// No TUN devices.
    #[error("cannot make a TUN device: {0}")]
    Tun(#[source] io::Error),
    /// The kernel refused a setting.
    #[error("cannot set {0}: {1}")]
    Setting(String, #[source] io::Error),
    /// A command failed.
    #[error("{0}: {1}")]
    Command(String, String),
}

/// A network of a server and a client. Each sees one device, with its address and the other's behind it.
#[derive(Debug)]
pub struct Network {
    /// Namespace of the server.
    pub server: Namespace,
    /// Namespace of the client.
    pub client: Namespace,
    tuns: Option<(Tun, Tun)>,
}

impl Network {
    /// Makes a network. It ends with its last user.
    ///
    /// # Errors
    ///
    /// See [`NetworkError`].
    pub fn new() -> Result<Self, NetworkError> {
        let (server, server_tun) = end(SERVER, CLIENT)?;
        let (client, client_tun) = end(CLIENT, SERVER)?;
        Ok(Self { server, client, tuns: Some((client_tun, server_tun)) })
    }

    /// Joins both ends by a link; once only, because the devices end with the emulator.
    ///
    /// # Errors
    ///
    /// The system has no thread to spare.
    ///
    /// # Panics
    ///
    /// The network had a link before.
    pub fn join(&mut self, link: Link) -> io::Result<Emulator> {
        let (client, server) = self.tuns.take().expect("a network has one link");
        Emulator::start(link, Box::new(client), Box::new(server))
    }

    /// Returns the namespace of an end.
    pub const fn namespace(&self, end: End) -> &Namespace {
        match end {
            End::Client => &self.client,
            End::Server => &self.server,
        }
    }

    /// Returns the packets that the kernel dropped at both ends before the emulator could read them, or after it wrote them.
    ///
    /// # Errors
    ///
    /// The device is gone.
    pub fn overflow(&self) -> io::Result<u64> {
        let mut total = 0;
        for end in End::BOTH {
            let read = || fs::read_to_string("/proc/thread-self/net/dev");
            total += dropped(&self.namespace(end).within(read)??);
        }
        Ok(total)
    }

    /// Waits until a process of the server's end has bound this port, UDP or TCP. Returns whether one did, within `limit`.
    ///
    /// # Errors
    ///
    /// The namespace cannot be entered.
    pub fn await_server(&self, port: u16, limit: Duration) -> io::Result<bool> {
        self.server.within(|| {
            for _ in 0..=limit.as_nanos() / LOOK.as_nanos() {
                let tables = ["udp", "udp6", "tcp", "tcp6"];
                let mut tables = tables.iter().map(|table| {
                    fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default()
                });
                if tables.any(|table| is_bound(&table, port)) {
                    return true;
                }
                std::thread::park_timeout(LOOK);
            }
            false
        })
    }
}

/// Makes one end with its device.
fn end(own: Ipv4Addr, other: Ipv4Addr) -> Result<(Namespace, Tun), NetworkError> {
    let namespace = Namespace::new().map_err(NetworkError::Namespace)?;
    let tun = namespace.within(|| {
        for (name, value) in SETTINGS {
            let path = format!("/proc/sys/net/{name}");
            // A kernel without IPv6 has no setting of it either.
            match fs::write(&path, value) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(NetworkError::Setting(path, error));
                }
                _ => {}
            }
        }
        let file = open_tun(DEVICE).map_err(NetworkError::Tun)?;
        sh(&format!(
            "ip link set lo up && ip addr add {own} peer {other} dev {DEVICE} && \
             ip link set dev {DEVICE} mtu 1500 txqueuelen {QUEUE} up"
        ))?;
        Ok(Tun(file))
    });
    let tun = tun.map_err(NetworkError::Namespace)??;
    Ok((namespace, tun))
}

fn sh(script: &str) -> Result<(), NetworkError> {
    let failed = |cause: String| NetworkError::Command(script.to_owned(), cause);
    let output = Command::new("sh").args(["-c", script]).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok(())
}

/// Returns the packets that the device dropped, from the kernel's table of devices.
fn dropped(table: &str) -> u64 {
    let line = table.lines().find_map(|line| {
        let (name, counters) = line.split_once(':')?;
        (name.trim() == DEVICE).then_some(counters)
    });
    let counters = line.unwrap_or_default().split_whitespace();
    let counters: Vec<u64> = counters.filter_map(|word| word.parse().ok()).collect();
    // Bytes, packets, errors, drops and four more of receiving; then the same of sending.
    let drops = [3, 11].map(|column| counters.get(column).copied().unwrap_or_default());
    drops.iter().sum()
}

/// Returns whether a local address of the kernel's table of sockets has this port. Of TCP, only sockets that listen count.
fn is_bound(table: &str, port: u16) -> bool {
    let port = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        // TCP_LISTEN is 0A; UDP sockets that are not connected are 07.
        local.is_some_and(|local| local.ends_with(&port)) && matches!(state, Some("0A" | "07"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_device_in_both_directions() {
        let table = "Inter-|   Receive | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes\n    \
                     lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  linkem: 9 9 0 20 0 0 0 0 9 9 0 300 0 0 0 0\n";
        assert_eq!(dropped(table), 320);
        assert_eq!(dropped(""), 0);
    }

    #[test]
    fn port_is_bound_by_a_listener_or_a_datagram_socket() {
        let table = |state| {
            format!(
                "  sl  local_address rem_address   st\n   0: 00000000:1151 00000000:0000 {state} 0"
            )
        };
        assert!(is_bound(&table("07"), 4433));
        assert!(is_bound(&table("0A"), 4433));
        assert!(!is_bound(&table("01"), 4433));
        assert!(!is_bound(&table("07"), 443));
    }
}
