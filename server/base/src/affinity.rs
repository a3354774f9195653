//! The cores that threads run on, and how they are scheduled there.

pub mod scheduler;

use std::io;
use std::sync::OnceLock;

use rustix::process::nice;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the cores that this thread may run on, in ascending order; none where the system does not say.
pub fn allowed_cores() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|core| allowed.is_set(*core)).collect()
}

/// Returns the cores that the process could use when it started, in ascending order; none where the system does not say.
/// First called by the main thread, before it starts others or leaves cores to workers.
pub fn process_cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(allowed_cores)
}

/// Pins this thread to a core.
///
/// # Errors
/// The core does not exist or is not allowed.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    confine(&[core])
}

/// Lets this thread, and those that it starts from now on, run on these cores alone.
///
/// # Errors
/// None of the cores exists and is allowed.
pub fn confine(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for core in cores.iter().filter(|core| **core < CpuSet::MAX_CPU) {
        set.set(*core);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Amount by which a thread that gives way is nicer than others: beside one of them that is never idle, it gets about a tenth
/// of a core.
const WAY: i32 = 10;

/// Has this thread give way to others on its core. Linux has a nice value for each thread, which those that it starts inherit.
///
/// # Errors
/// The system does not allow it.
pub fn give_way() -> io::Result<()> {
    nice(WAY)?;
    Ok(())
}

/// Returns the nice value of this thread.
#[cfg(any(test, feature = "test-fixtures"))]
pub fn niceness() -> i32 {
    nice(0).expect("the kernel tells the niceness")
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
