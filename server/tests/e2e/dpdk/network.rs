//! Two network namespaces with a veth pair between them: the test's, and the server's.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use sluicegate_dataplane::offloads::turn_offloads_off;
use socket2::{Domain, Protocol, Socket, Type};

use crate::namespace::{Namespace, sh};
use crate::server::{Folder, Server, Setup};

pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
pub(super) const SERVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, 1);
pub(super) const CLIENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, 2);

/// The server's namespace, and `sgb` in the test's, which leads to `sga` there. Removed when dropped.
pub(super) struct Network {
    namespace: Namespace,
    _only: MutexGuard<'static, ()>,
}

impl Network {
    /// Checks that the host allows such networks.
    pub(super) fn trial() -> Result<(), String> {
        let script = "ip link add sga type veth peer name sgb && nsenter -t $$ -n true";
        let output = Command::new("unshare").args(["-n", "sh", "-c", script]).output();
        match output {
            Ok(output) if output.status.success() => Ok(()),
            output => Err(format!("no network namespaces and veth here: {output:?}")),
        }
    }

    /// Makes a network whose veth has so many queues.
    pub(super) fn new(queues: usize) -> Network {
        // The names of the interfaces are taken while another test has them; one that failed has removed them.
        static ONLY: Mutex<()> = Mutex::new(());
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        let network = Network { namespace: Namespace::new(), _only: only };
        let id = network.holder();
        let count = format!("numrxqueues {queues} numtxqueues {queues}");
        sh(&format!(
            "ip link set lo up && \
             ip link add sgb {count} type veth peer name sga {count} && ip link set sga netns {id} && \
             ip addr add {CLIENT}/24 dev sgb && ip addr add {CLIENT_V6}/64 dev sgb nodad && ip link set sgb up"
        ));
        // What the kernel would send of its own disturbs nobody, and is none of the test's business.
        network.in_the_servers(
            "ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/sga/disable_ipv6 && ip link set sga up",
        );
        turn_offloads_off("sgb");
        network
    }

    /// Returns the system's number of a process in the server's namespace.
    pub(super) fn holder(&self) -> String {
        self.namespace.holder()
    }

    /// Starts the server.
    pub(super) fn start(&self, setup: &Setup, folder: &Folder) -> Server {
        self.namespace.start(setup, folder)
    }

    /// Runs a script in the server's namespace, and returns what it says.
    pub(super) fn in_the_servers(&self, script: &str) -> String {
        self.namespace.sh(script)
    }

    /// Calls a function on a thread in the server's namespace, and returns what it returns.
    pub(super) fn within<T: Send>(&self, function: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/proc/{}/ns/net", self.holder())).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).unwrap();
                function()
            });
            thread.join().unwrap()
        })
    }

    /// Gives the kernel the server's addresses.
    pub(super) fn add_addresses(&self) {
        self.in_the_servers(&format!(
            "echo 0 >/proc/sys/net/ipv6/conf/sga/disable_ipv6 && ip addr add {SERVER}/24 dev sga && \
             ip addr add {SERVER_V6}/64 dev sga nodad"
        ));
    }

    /// Takes the server's interface up or down.
    pub(super) fn set_link(&self, state: &str) {
        self.in_the_servers(&format!("ip link set sga {state}"));
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Without it the kernel removes the pair only some time after the namespace.
        let _ = Command::new("ip").args(["link", "del", "sgb"]).status();
    }
}

/// Sends echo requests until one is answered.
pub(super) fn ping(host: IpAddr) {
    let (domain, protocol, request, reply, header) = if host.is_ipv4() {
        (Domain::IPV4, Protocol::ICMPV4, 8, 0, 20)
    } else {
        (Domain::IPV6, Protocol::ICMPV6, 128, 129, 0)
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
    let pause = Duration::from_secs(1);
    socket.set_read_timeout(Some(pause)).unwrap();
    // Type, code, checksum, identifier, number, data. The kernel computes the checksum of ICMPv6.
    let mut packet = [request, 0, 0, 0, 0x5e, 0xa1, 0, 1, b'p', b'i', b'n', b'g'];
    if host.is_ipv4() {
        let words = packet.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let sum: u32 = words.sum();
        let sum = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap();
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    for _ in 0..10 {
        socket.send_to(&packet, &SocketAddr::new(host, 0).into()).unwrap();
        let mut buffer = [0; 256];
        // Others' packets come by as well.
        while let Ok(length) = (&socket).read(&mut buffer) {
            let bytes = &buffer[..length];
            let answer = bytes.get(header..).unwrap_or_default();
            if answer.first() == Some(&reply) && answer.get(4..) == Some(&packet[4..]) {
                return;
            }
        }
    }
    panic!("{host} answers no ping");
}
