//! Options of sockets and drivers.

sluicegate_options::options! {
    /// Options that the sockets of a listener are bound with.
    pub struct SocketOptions {
        /// Kernel memory for datagrams that wait to be read, per socket; raise it where the kernel's UdpRcvbufErrors
        /// grows. Without CAP_NET_ADMIN net.core.rmem_max is the limit.
        receive_buffer as socket_receive_buffer: usize { default: 8 << 20, min: 64 << 10, max: 1 << 30, unit: Bytes },
        /// Kernel memory for datagrams on their way to the device, per socket; raise it on fast links. Without
        /// CAP_NET_ADMIN net.core.wmem_max is the limit.
        send_buffer as socket_send_buffer: usize { default: 4 << 20, min: 256 << 10, max: 1 << 30, unit: Bytes },
        /// Whether the kernel hands over several datagrams of one peer at once (GRO); turn it off only to work around a
        /// driver.
        gro: bool { default: true },
        /// Whether several datagrams to one peer are handed to the kernel at once (GSO); turn it off only to work around a
        /// driver.
        gso: bool { default: true },
        /// Time that the kernel polls the device's queue before a worker sleeps: lower latency for more CPU. 0 is off;
        /// needs CAP_NET_ADMIN.
        busy_poll: u32 { default: 0, min: 0, max: 1000, unit: Microseconds },
    }
}

sluicegate_options::options! {
    /// Options that the driver of a worker is opened with.
    pub struct DriverOptions {
        /// Receive buffers of 64 KiB per worker; io_uring rounds up to a power of two, mio uses at most 16. Raise it
        /// where rx_exhausted grows.
        rx_buffers: usize { default: 64, min: 4, max: 4096 },
        /// Transmit buffers of 64 KiB that one listener of a worker can fill before a system call, with io_uring; mio uses
        /// two and ignores this.
        tx_slots: usize { default: 8, min: 1, max: 256 },
    }
}
