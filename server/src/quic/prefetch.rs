//! Memory that the processor loads into its caches before it is used.

/// Bytes of a cache line of x86-64.
const LINE: usize = 64;

/// Begins to load the memory of a value, without what it points to, into the first-level cache. The processor loads several lines at
/// a time then, where code that reads them as it needs them waits for one after the other. Does nothing on processors other than
/// x86-64, for which Rust has no stable instruction.
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the instruction has no safe wrapper")
)]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        let start = std::ptr::from_ref(value).cast::<i8>();
        for offset in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: a hint, which reads nothing and cannot fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
