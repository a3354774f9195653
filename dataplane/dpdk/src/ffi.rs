//! Declarations of `shim.c`.
#![expect(unsafe_code, reason = "declarations of C functions")]

use std::ffi::{c_char, c_int};

/// Most frames of one call.
pub const BURST: usize = 64;

pub(crate) const RX_IP_GOOD: u32 = 1;
pub(crate) const RX_IP_BAD: u32 = 2;
pub(crate) const RX_UDP_GOOD: u32 = 4;
pub(crate) const RX_UDP_BAD: u32 = 8;
pub(crate) const TX_IPV4: u32 = 1;
pub(crate) const TX_IPV6: u32 = 2;
pub(crate) const TX_L2_SHIFT: u32 = 8;

/// A buffer of the library, whose layout is the shim's business.
#[repr(C)]
pub(crate) struct RawMbuf {
    _opaque: [u8; 0],
}

/// A pool of buffers, likewise.
#[repr(C)]
pub(crate) struct RawPool {
    _opaque: [u8; 0],
}

/// `struct sg_frame`: a buffer and the bytes in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) mbuf: *mut RawMbuf,
    pub(crate) data: *mut u8,
    pub(crate) len: u32,
    pub(crate) flags: u32,
}

impl Frame {
    pub(crate) const NONE: Self =
        Self { mbuf: std::ptr::null_mut(), data: std::ptr::null_mut(), len: 0, flags: 0 };
}

/// `struct sg_info`: facts about a port.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Info {
    pub(crate) max_rx_queues: u16,
    pub(crate) max_tx_queues: u16,
    pub(crate) mtu: u16,
    pub(crate) mac: [u8; 6],
    pub(crate) rx_checksum: u8,
    pub(crate) tx_checksum: u8,
    pub(crate) rss: u8,
    pub(crate) link_up: u8,
    pub(crate) driver: [u8; 32],
}

/// `struct sg_stats`: counters of a port.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Stats {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) missed: u64,
    pub(crate) receive_errors: u64,
    pub(crate) no_buffer: u64,
    pub(crate) send_errors: u64,
}

pub(crate) type Log = extern "C" fn(bytes: *const u8, len: usize);

unsafe extern "C" {
    pub(crate) fn sg_eal_init(argc: c_int, argv: *mut *mut c_char, log: Log) -> c_int;
    pub(crate) fn sg_eal_cleanup() -> c_int;
    pub(crate) fn sg_version() -> *const c_char;
    pub(crate) fn sg_errno() -> c_int;
    pub(crate) fn sg_thread_register() -> c_int;
    pub(crate) fn sg_thread_unregister();
    pub(crate) fn sg_probe(devargs: *const c_char) -> c_int;
    pub(crate) fn sg_port_named(name: *const c_char) -> c_int;
    pub(crate) fn sg_port_info(port: u16, out: *mut Info) -> c_int;
    pub(crate) fn sg_port_configure(port: u16, queues: u16, mtu: u16) -> c_int;
    pub(crate) fn sg_queue_setup(
        port: u16,
        queue: u16,
        rx: u16,
        tx: u16,
        pool: *mut RawPool,
    ) -> c_int;
    pub(crate) fn sg_port_start(port: u16, multicast: c_int) -> c_int;
    pub(crate) fn sg_port_stop(port: u16);
    pub(crate) fn sg_port_remove(port: u16);
    pub(crate) fn sg_stats(port: u16, out: *mut Stats) -> c_int;
    pub(crate) fn sg_pool_create(
        name: *const c_char,
        count: u32,
        cache: u32,
        room: u16,
    ) -> *mut RawPool;
    pub(crate) fn sg_pool_available(pool: *mut RawPool) -> u32;
    pub(crate) fn sg_pool_free(pool: *mut RawPool);
    pub(crate) fn sg_headroom() -> u32;
    pub(crate) fn sg_receive(port: u16, queue: u16, out: *mut Frame, room: u16) -> u16;
    pub(crate) fn sg_allocate(pool: *mut RawPool, out: *mut Frame, count: u16) -> u16;
    pub(crate) fn sg_send(port: u16, queue: u16, frames: *const Frame, count: u16) -> u16;
    pub(crate) fn sg_free(mbuf: *mut RawMbuf);
}
