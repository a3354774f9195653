//! The backends that are compared, and how the server's end of the veth pair is set up for each.

use sluicegate_dataplane::Backend;

/// A backend on a kind of link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    /// Name on the command line and in tables.
    pub(crate) name: &'static str,
    pub(crate) dataplane: Kind,
    /// Whether the server's end of the pair leaves checksums and segmentation to the other end, as to a card that does both.
    pub(crate) offloads: bool,
}

/// The way from the server to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sockets of the kernel.
    Sockets(Backend),
    /// A port of DPDK by AF_XDP, beside the kernel, which has the address.
    AfXdp,
    /// A port of DPDK by AF_PACKET.
    AfPacket,
}

impl Contender {
    /// All of them, the one that the others are compared with first.
    pub(crate) const ALL: [Self; 6] = [
        Self::on_frames("mio", Kind::Sockets(Backend::Mio)),
        Self::on_frames("io_uring", Kind::Sockets(Backend::IoUring)),
        Self::on_frames("af_xdp", Kind::AfXdp),
        Self::on_frames("af_packet", Kind::AfPacket),
        Self::offloading("mio+offload", Backend::Mio),
        Self::offloading("io_uring+offload", Backend::IoUring),
    ];

    const fn on_frames(name: &'static str, dataplane: Kind) -> Self {
        Self { name, dataplane, offloads: false }
    }

    const fn offloading(name: &'static str, backend: Backend) -> Self {
        Self { name, dataplane: Kind::Sockets(backend), offloads: true }
    }

    /// Returns the contenders of these names, in the order of [`Contender::ALL`]; all of them where there are no names.
    pub(crate) fn named(names: &[String]) -> anyhow::Result<Vec<Self>> {
        for name in names {
            let known = Self::ALL.iter().any(|contender| contender.name == name);
            let all = Self::ALL.map(|contender| contender.name).join(", ");
            anyhow::ensure!(known, "no backend is named `{name}`; there are: {all}");
        }
        let chosen =
            |contender: &Self| names.is_empty() || names.iter().any(|n| n == contender.name);
        Ok(Self::ALL.into_iter().filter(chosen).collect())
    }

    /// Returns the name of the dataplane on this interface, for [`crate::node`].
    pub(crate) fn on(&self, interface: &str) -> String {
        match self.dataplane {
            Kind::Sockets(backend) => backend.to_string(),
            Kind::AfXdp => format!("af_xdp:{interface}"),
            Kind::AfPacket => format!("af_packet:{interface}"),
        }
    }
}
