//! Numbered runs, several of them at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does numbered work on as many threads as there are jobs, and returns the results in the order of their numbers. The work gets its
/// number, and the core that its job should use.
///
/// # Errors
///
/// Those of the work. The job with the error ends at once; the others finish what they have begun.
pub fn run<T: Send, E: Send>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize, usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let one_job = |job: usize| -> Result<(), E> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            let result = work(number, job % cores).inspect_err(|_| {
                next.store(count, Ordering::Relaxed);
            })?;
            let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            done.push((number, result));
        }
    };
    thread::scope(|scope| {
        let one_job = &one_job;
        let jobs: Vec<_> = (0..jobs.max(1)).map(|job| scope.spawn(move || one_job(job))).collect();
        jobs.into_iter()
            .map(|job| job.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<()>, _>>()
    })?;
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_in_the_order_of_their_numbers() {
        let done = run(20, 3, |number, _| Ok::<_, ()>(number * number));
        assert_eq!(done, Ok((0..20).map(|number| number * number).collect()));
    }

    #[test]
    fn error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let done = run(1000, 1, |number, _| {
            begun.fetch_add(1, Ordering::Relaxed);
            if number == 3 {
                return Err("none");
            }
            Ok(())
        });
        assert_eq!(done, Err("none"));
        assert_eq!(begun.into_inner(), 4);
    }
}
