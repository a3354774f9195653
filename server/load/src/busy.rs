//! Measures the share of its time in which a thread was busy.

use std::time::{Duration, Instant};

/// Share of the time above which a thread itself, and not the server, is the limit. The rest is sleep between two bursts.
const BOTTLENECK: f64 = 0.95;

/// Shortest run that is judged: handshakes alone keep a thread busy.
const SHORTEST: Duration = Duration::from_secs(1);

/// Time that a thread ran, and time that it could have run but waited for a core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    running: Duration,
    waiting: Duration,
    wall: Duration,
}

impl Busy {
    /// Returns the times of the calling thread since `start`. Linux keeps them in nanoseconds (proc(5), `schedstat`).
    pub(crate) fn since(start: &Meter, now: Instant) -> Option<Busy> {
        let (running, waiting) = schedstat()?;
        let (ran, waited) = start.stat?;
        Some(Busy {
            running: running.saturating_sub(ran),
            waiting: waiting.saturating_sub(waited),
            wall: now.saturating_duration_since(start.at),
        })
    }

    /// Returns the share of the time that the thread had something to do.
    pub(crate) fn share(&self) -> f64 {
        let busy = self.running + self.waiting;
        busy.as_secs_f64() / self.wall.as_secs_f64().max(1e-9)
    }

    /// Returns a warning if the threads were busy nearly all the time, so that they, and not the server, set the figures.
    pub(crate) fn verdict(threads: &[Busy]) -> Option<String> {
        let busiest = threads.iter().max_by(|a, b| a.share().total_cmp(&b.share()))?;
        let share = busiest.share();
        if share < BOTTLENECK || busiest.wall < SHORTEST {
            return None;
        }
        let waited = busiest.waiting.as_secs_f64() / busiest.wall.as_secs_f64().max(1e-9);
        let remedy = if waited > 0.1 {
            "run it on cores that nobody else uses"
        } else {
            "use more threads (-t), or several machines"
        };
        Some(format!(
            "the load generator was the bottleneck: a thread of it was busy {:.0} % of the time, {:.0} % of it waiting for a core; {remedy}",
            share.min(1.0) * 100.0,
            waited.min(1.0) * 100.0,
        ))
    }
}

/// State of a thread's times at its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    at: Instant,
    stat: Option<(Duration, Duration)>,
}

impl Meter {
    /// Reads the times of the calling thread.
    pub(crate) fn start(now: Instant) -> Meter {
        Meter { at: now, stat: schedstat() }
    }
}

/// Returns the calling thread's time on a core and its time in the queue for one; `None` if the kernel does not count them.
fn schedstat() -> Option<(Duration, Duration)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut nanos = text.split_whitespace().map(str::parse);
    let mut next = || Some(Duration::from_nanos(nanos.next()?.ok()?));
    Some((next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(running: u64, waiting: u64) -> Busy {
        Busy {
            running: Duration::from_millis(running),
            waiting: Duration::from_millis(waiting),
            wall: Duration::from_millis(1000),
        }
    }

    #[test]
    fn a_thread_that_never_sleeps_is_a_bottleneck() {
        assert_eq!(Busy::verdict(&[]), None);
        assert_eq!(Busy::verdict(&[busy(500, 100), busy(900, 0)]), None);
        let verdict = Busy::verdict(&[busy(500, 100), busy(990, 0)]).unwrap();
        assert!(verdict.contains("busy 99 %") && verdict.contains("-t"), "{verdict}");
        let short = Busy { wall: Duration::from_millis(900), ..busy(900, 0) };
        assert_eq!(Busy::verdict(&[short]), None);
        let verdict = Busy::verdict(&[busy(500, 480)]).unwrap();
        assert!(verdict.contains("busy 98 %"), "{verdict}");
        assert!(verdict.contains("cores that nobody else uses"), "{verdict}");
    }

    #[test]
    fn linux_counts_the_time_of_threads() {
        assert!(schedstat().is_some());
    }
}
