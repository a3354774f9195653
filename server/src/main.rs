//! The `sluicegate` binary.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Options of jemalloc; `MALLOC_CONF` in the environment comes after them.
///
/// A worker frees what its origin thread allocates, so a thread's own cache of free blocks empties or overflows all the time. A
/// slab of 8 KiB, the size of a read from an upstream, holds a single block by default, and goes through the tree of free pages
/// each time; one of 16 pages holds eight. Slabs for 4 to 14 KiB, the sizes of tasks and buffers, have as many pages. A cache is
/// collected after each MiB of blocks instead of each 64 KiB.
///
/// Freed pages go back to the system after a second, not ten: a burst of handshakes frees as many as its connections keep.
///
/// Its profiler can be enabled at the start alone, and takes no samples until a recording activates it. It also counts blocks that
/// are free again.
#[expect(unsafe_code, reason = "jemalloc finds its options by this name")]
// SAFETY: jemalloc declares the symbol as a weak pointer to a string that ends with a zero byte, and only reads it.
#[unsafe(export_name = "malloc_conf")]
static ALLOCATOR_OPTIONS: &[u8; 136] =
    b"tcache_gc_incr_bytes:1048576,slab_sizes:4096-14336:16,dirty_decay_ms:1000,\
    prof:true,prof_active:false,prof_accum:true,lg_prof_sample:19\0";

fn main() -> ExitCode {
    sluicegate::cli::main(&sluicegate_cc::Registry::builtin())
}

#[cfg(test)]
mod tests {
    use tikv_jemalloc_ctl::raw;

    /// Reads a number of jemalloc's.
    #[expect(unsafe_code, reason = "jemalloc's numbers have no types")]
    fn read<T: Copy>(name: &str) -> T {
        let name = format!("{name}\0");
        // SAFETY: the callers name the type that jemalloc's manual gives for the name, and jemalloc checks its size.
        unsafe { raw::read(name.as_bytes()) }.expect("known to jemalloc")
    }

    #[test]
    fn jemalloc_takes_the_options() {
        assert_eq!(read::<usize>("opt.tcache_gc_incr_bytes"), 1 << 20);
        assert_eq!(read::<isize>("opt.dirty_decay_ms"), 1000);
        assert!(read::<bool>("opt.prof") && !read::<bool>("prof.active"));
        assert!(read::<bool>("opt.prof_accum"));
        assert_eq!(read::<usize>("prof.lg_sample"), 19);
        let bins = 0..read::<u32>("arenas.nbins");
        let slab = bins
            .filter(|bin| read::<usize>(&format!("arenas.bin.{bin}.size")) == 8_192)
            .map(|bin| read::<usize>(&format!("arenas.bin.{bin}.slab_size")))
            .next();
        assert_eq!(slab, Some(16 * 4_096));
    }
}
