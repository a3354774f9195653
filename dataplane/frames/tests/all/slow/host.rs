//! A host of the link that is smoltcp's.

use std::collections::VecDeque;

use sluicegate_frames::MacAddr;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::icmp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

/// Identifier of the host's echo requests.
const IDENT: u16 = 0x1234;

/// Frames on their way to and from the host.
#[derive(Default)]
pub(crate) struct Cable {
    pub(crate) to_host: VecDeque<Vec<u8>>,
    pub(crate) from_host: Vec<Vec<u8>>,
}

pub(crate) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub(crate) struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Cable {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        let frame = self.to_host.pop_front()?;
        Some((Received(frame), Sent(&mut self.from_host)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.from_host))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}

/// A host that can send pings.
pub(crate) struct Host {
    pub(crate) cable: Cable,
    interface: Interface,
    sockets: SocketSet<'static>,
    pings: SocketHandle,
}

impl Host {
    pub(crate) fn new(mac: MacAddr, addresses: &[(IpAddress, u8)]) -> Self {
        let mut cable = Cable::default();
        let config = Config::new(EthernetAddress(mac.0).into());
        let mut interface = Interface::new(config, &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|own| {
            for (address, len) in addresses {
                own.push(IpCidr::new(*address, *len)).expect("few addresses");
            }
        });
        let buffer =
            || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 8], vec![0; 8192]);
        let mut socket = icmp::Socket::new(buffer(), buffer());
        socket.bind(icmp::Endpoint::Ident(IDENT)).expect("open");
        let mut sockets = SocketSet::new(vec![]);
        let pings = sockets.add(socket);
        Self { cable, interface, sockets, pings }
    }

    /// Sends an ICMP message, which has the host's identifier.
    pub(crate) fn send(&mut self, message: &[u8], to: IpAddress) {
        let socket = self.sockets.get_mut::<icmp::Socket<'_>>(self.pings);
        socket.send_slice(message, to).expect("room");
    }

    /// Returns the ICMP messages with the host's identifier that arrived.
    pub(crate) fn received(&mut self) -> Vec<Vec<u8>> {
        let socket = self.sockets.get_mut::<icmp::Socket<'_>>(self.pings);
        std::iter::from_fn(|| socket.recv().ok().map(|(data, _)| data.to_vec())).collect()
    }

    pub(crate) fn poll(&mut self, now: u64) {
        let now = Instant::from_millis(i64::try_from(now).expect("a small time"));
        self.interface.poll(now, &mut self.cable, &mut self.sockets);
    }

    pub(crate) const fn ident() -> u16 {
        IDENT
    }
}
