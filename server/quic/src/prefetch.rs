//! Prefetch of a value into the processor's caches.

/// Prefetches a value, without what it points to, into all levels of cache. The processor loads several lines at a time then; code
/// that reads them one by one may wait for each. Does nothing on processors other than x86-64, for which std has no stable intrinsic.
#[cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "the intrinsic takes a pointer, and needs SSE, which every x86-64 has"
    )
)]
pub(super) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

        const LINE: usize = 64;
        let start = std::ptr::from_ref(value).cast::<i8>();
        let before = start.addr() % LINE;
        for offset in (0..before + size_of::<T>()).step_by(LINE) {
            let line = start.wrapping_sub(before).wrapping_add(offset);
            // SAFETY: x86-64 has SSE, and a prefetch neither dereferences its address nor faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
