//! The cores that threads run on.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the cores that this thread may run on, in ascending order; none where the system does not say.
pub(crate) fn allowed_cores() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|core| allowed.is_set(*core)).collect()
}

/// Pins this thread to a core.
///
/// # Errors
/// The core does not exist or is not allowed.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_its_core_alone() {
        let last = *allowed_cores().last().unwrap();
        let pinned = std::thread::spawn(move || {
            pin(last).unwrap();
            allowed_cores()
        });
        assert_eq!(pinned.join().unwrap(), [last]);
        let missing = std::thread::spawn(|| (pin(CpuSet::MAX_CPU - 1), pin(usize::MAX)));
        let (unknown, absurd) = missing.join().unwrap();
        assert!(unknown.is_err() && absurd.is_err());
    }
}
