//! Backends of the dataplane, and what each needs of the server's end of a veth pair.

use sluicegate_dataplane::Backend as Sockets;

/// A backend on a kind of link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backend {
    /// Name on the command line and in tables.
    pub(crate) name: &'static str,
    pub(crate) driver: Driver,
    /// Whether the server's end of the pair leaves checksums and segmentation to the other end, as to a card that does both.
    pub(crate) offloads: bool,
}

/// The way from the server to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// Sockets of the kernel.
    Sockets(Sockets),
    /// A port of DPDK by AF_XDP, beside the kernel, which has the address.
    AfXdp,
    /// A port of DPDK by AF_PACKET; the kernel must not have the address.
    AfPacket,
}

impl Backend {
    /// All of them, the one that the others are compared with first.
    pub(crate) const ALL: [Self; 6] = [
        Self::on_frames("mio", Driver::Sockets(Sockets::Mio)),
        Self::on_frames("io_uring", Driver::Sockets(Sockets::IoUring)),
        Self::on_frames("af_xdp", Driver::AfXdp),
        Self::on_frames("af_packet", Driver::AfPacket),
        Self::offloading("mio+offload", Sockets::Mio),
        Self::offloading("io_uring+offload", Sockets::IoUring),
    ];

    const fn on_frames(name: &'static str, driver: Driver) -> Self {
        Self { name, driver, offloads: false }
    }

    const fn offloading(name: &'static str, sockets: Sockets) -> Self {
        Self { name, driver: Driver::Sockets(sockets), offloads: true }
    }

    /// Returns whether it needs an interface of its own.
    pub(crate) fn needs_interface(&self) -> bool {
        self.offloads || !matches!(self.driver, Driver::Sockets(_))
    }

    /// Returns its name on this interface, for [`crate::node`] and for the server's configuration.
    pub(crate) fn on(&self, interface: &str) -> String {
        match self.driver {
            Driver::Sockets(backend) => backend.to_string(),
            Driver::AfXdp => format!("af_xdp:{interface}"),
            Driver::AfPacket => format!("af_packet:{interface}"),
        }
    }
}
