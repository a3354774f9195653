//! Pools of buffers.
#![expect(unsafe_code, reason = "calls of the shim")]

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::eal::Eal;
use crate::error::Error;
use crate::ffi::{self, RawPool};

/// Most buffers that a registered thread keeps for itself.
const CACHE: u32 = 256;

/// A pool of buffers.
#[derive(Debug)]
pub(crate) struct Pool {
    raw: NonNull<RawPool>,
    count: u32,
}

// SAFETY: the library's pools serve all threads at once.
unsafe impl Send for Pool {}
// SAFETY: likewise.
unsafe impl Sync for Pool {}

impl Pool {
    /// Makes a pool of `count` buffers with a data room of `room` bytes behind the headroom.
    pub(crate) fn new(_: &Eal, count: u32, room: u16) -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let step = format!("make {count} buffers of {room} bytes");
        let name = format!("sluicegate{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let Ok(name) = CString::new(name) else {
            return Err(Error::because(step, "its name holds a zero byte"));
        };
        // SAFETY: the environment runs while there is a handle; the name is copied.
        let raw = unsafe { ffi::sg_pool_create(name.as_ptr(), count, CACHE.min(count / 4), room) };
        let Some(raw) = NonNull::new(raw) else {
            // SAFETY: reads a number of the thread.
            return Err(Error::of(step, unsafe { ffi::sg_errno() }));
        };
        Ok(Self { raw, count })
    }

    pub(crate) fn raw(&self) -> *mut RawPool {
        self.raw.as_ptr()
    }

    /// Returns the number of buffers that are not in the pool.
    pub(crate) fn missing(&self) -> u32 {
        // SAFETY: the pool lives as long as `self`.
        let available = unsafe { ffi::sg_pool_available(self.raw()) };
        self.count.saturating_sub(available)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Buffers that a driver never returned lie in the pool's memory: then the memory stays.
        if self.missing() == 0 {
            // SAFETY: every buffer is back. Nobody else has the pool's pointer: the ports are closed, and each queue and
            // buffer keeps the pool.
            unsafe { ffi::sg_pool_free(self.raw()) };
        }
    }
}
