//! Options of sockets and drivers.

sluicegate_options::options! {
    /// Options that the sockets of a listener are bound with.
    pub struct SocketOptions {
        /// Kernel memory of each socket for datagrams that wait to be read. Raise it if
        /// sluicegate_receive_overflows_total grows. Without CAP_NET_ADMIN, net.core.rmem_max is the limit.
        receive_buffer as socket_receive_buffer: usize { default: 8 << 20, min: 64 << 10, max: 1 << 30, unit: Bytes },
        /// Kernel memory of each socket for datagrams that wait for the network device. Raise it on fast links. Without
        /// CAP_NET_ADMIN, net.core.wmem_max is the limit.
        send_buffer as socket_send_buffer: usize { default: 4 << 20, min: 256 << 10, max: 1 << 30, unit: Bytes },
        /// Whether the kernel passes several datagrams of one peer to the server at once (GRO), which saves CPU time.
        /// Turn it off only to work around a faulty driver.
        gro: bool { default: true },
        /// Whether the server passes several datagrams to one peer to the kernel at once (GSO), which saves CPU time.
        /// Turn it off only to work around a faulty driver.
        gso: bool { default: true },
        /// Time that the kernel polls the network device's queue before a worker sleeps: lower latency for more CPU time.
        /// io_uring does so since Linux 6.9; mio only as far as net.core.busy_poll says. It takes a device whose driver
        /// supports busy polling, which loopback does not. The label napi of sluicegate_worker_info tells whether the
        /// kernel accepted it. 0s turns it off.
        busy_poll: u32 { default: 0, min: 0, max: 1000, unit: Microseconds },
    }
}

sluicegate_options::options! {
    /// Options that the driver of a worker is opened with.
    pub struct DriverOptions {
        /// Number of 64 KiB buffers that each worker receives into: for each listener with io_uring, which rounds it up
        /// to a power of two; for all of them with mio, which uses at most 16. Raise it if sluicegate_receive_buffers_exhausted_total grows.
        rx_buffers: usize { default: 64, min: 4, max: 4096 },
        /// Number of 64 KiB buffers that a worker can fill for each listener before a system call sends them. It
        /// applies to io_uring; mio always uses two.
        tx_slots: usize { default: 8, min: 1, max: 256 },
        /// Least size of a batch of datagrams that io_uring sends without copying it (zero-copy). 0B turns it off,
        /// which is right for most servers. With large bodies, on a card that computes checksums and segments UDP,
        /// 32KiB saves a third of the kernel's part of a send, which is a percent of the server's CPU time. It costs
        /// time for smaller batches, and on loopback, veth pairs and bridges to containers. A batch keeps its buffer
        /// until the card has sent it: raise tx_slots, too. Where the limit of locked memory (LimitMEMLOCK) does not
        /// suffice, the worker copies again. The label zero_copy of sluicegate_worker_info tells whether it is in use.
        zero_copy: usize { default: 0, min: 0, max: 64 << 10, unit: Bytes },
    }
}
