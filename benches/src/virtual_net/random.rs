//! Random numbers of quiche, from a seed while a simulation runs.
//!
//! quiche skips packet numbers at random moments, which moves losses and ACK sizes: without this no run could be
//! repeated. The build script has the linker send every call of `RAND_bytes` here.

#![expect(unsafe_code, reason = "stands before a C function of the TLS library")]

use std::cell::RefCell;
use std::ffi::c_int;

use sluicegate_sim::Rng;

thread_local!(static SEEDED: RefCell<Option<Rng>> = const { RefCell::new(None) });

unsafe extern "C" {
    /// Calls the TLS library's own function, under the name that the linker gives it.
    fn __real_RAND_bytes(buffer: *mut u8, length: usize) -> c_int;
}

/// Takes every call of `RAND_bytes` in the program.
///
/// # Safety
///
/// As the function that it stands for: `buffer` is writable for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_RAND_bytes(buffer: *mut u8, length: usize) -> c_int {
    SEEDED.with_borrow_mut(|seeded| {
        let Some(rng) = seeded else {
            // SAFETY: the caller's promise is handed on unchanged.
            return unsafe { __real_RAND_bytes(buffer, length) };
        };
        for at in 0..length {
            let [byte, ..] = rng.bits().to_le_bytes();
            // SAFETY: `at` is below `length`, up to which the caller promises writable memory.
            unsafe { buffer.add(at).write(byte) };
        }
        1
    })
}

/// While it lives, random numbers of this thread follow from its seed.
pub(crate) struct Seeded(());

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        SEEDED.set(Some(Rng::new(seed)));
        Self(())
    }
}

impl Drop for Seeded {
    fn drop(&mut self) {
        SEEDED.set(None);
    }
}
