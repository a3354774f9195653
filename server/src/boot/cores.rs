//! The cores of workers, and those that are left for other threads.

use sluicegate_base::affinity;
use sluicegate_config::{Config, Cores, Group, Scheduler};

use super::error::BootError;

/// Returns the cores of a group, each known to exist.
pub(super) fn cores(group: &Group) -> Result<Vec<usize>, BootError> {
    let known = affinity::process_cores();
    match &group.cores {
        Cores::Auto if known.is_empty() => Ok(vec![0]),
        Cores::Auto => Ok(known.to_vec()),
        Cores::List(list) => {
            if let Some(missing) = list.iter().find(|core| !known.contains(core)) {
                return Err(BootError::NoCore {
                    group: group.name.clone(),
                    core: *missing,
                    allowed: known.to_vec(),
                });
            }
            Ok(list.clone())
        }
    }
}

/// Returns the cores that the process may use and no worker is pinned to.
pub(super) fn spare_cores(config: &Config) -> Vec<usize> {
    without(affinity::process_cores(), config, |_| true)
}

/// Checks that real-time workers that spin leave a core to everything else.
///
/// # Errors
/// They have all cores. One that spins for a while after a datagram does so for ever if a client sends one from time to time.
pub(super) fn check_real_time(config: &Config) -> Result<(), BootError> {
    let all = affinity::process_cores();
    let real_time = |group: &Group| spins(group) && group.scheduler != Scheduler::Normal;
    if !all.is_empty() && without(all, config, real_time).is_empty() {
        return Err(BootError::NoCoreLeft);
    }
    Ok(())
}

/// Keeps the calling thread, and those that it starts from now on, off the cores of workers that spin. Where such workers
/// have all cores, nothing changes. Workers pin themselves.
///
/// # Errors
/// As [`check_real_time`].
pub(super) fn keep_off_spinning_workers(config: &Config) -> Result<(), BootError> {
    check_real_time(config)?;
    let all = affinity::process_cores();
    let left = without(all, config, spins);
    if left.len() == all.len() || left.is_empty() {
        return Ok(());
    }
    if let Err(error) = affinity::confine(&left) {
        tracing::warn!(%error, cores = ?left, "other threads cannot be kept off the cores of workers that spin");
    }
    Ok(())
}

/// Returns whether the workers of a group poll before they sleep.
fn spins(group: &Group) -> bool {
    group.spin_always || !group.spin.is_zero()
}

/// Returns `cores` without those of the workers of groups that `takes` is true of.
fn without(cores: &[usize], config: &Config, takes: impl Fn(&Group) -> bool) -> Vec<usize> {
    let served = |group: &&Group| config.listeners.iter().any(|l| l.group == group.name);
    let groups = config.groups.iter().filter(served).filter(|g| takes(g));
    let taken: Vec<usize> = groups.flat_map(|g| self::cores(g).unwrap_or_default()).collect();
    let left = cores.iter().filter(|core| !taken.contains(core));
    left.copied().collect()
}

#[cfg(test)]
mod tests {
    use sluicegate_cc::Registry;

    use super::*;

    /// Returns a configuration of a group on `cores` with these keys, and one without a listener.
    fn config(cores: &str, keys: &str) -> Config {
        let text = format!(
            "[[group]]\nname = \"a\"\ncores = {cores}\n{keys}\n[[group]]\nname = \"idle\"\nspin_always = true\n\
             [[listener]]\nname = \"l\"\naddress = \"[::1]:0\"\ngroup = \"a\"\ntls = \"self-signed\"\n[[route]]\npath = \"/\"\nfixed = {{}}\n"
        );
        Config::from_toml("test.toml", &text, &Registry::builtin()).unwrap()
    }

    /// Returns the cores that a thread may use after it was kept off those of `config`.
    fn left(config: Config) -> Result<Vec<usize>, BootError> {
        // The test's own threads stay where they are.
        let all = affinity::process_cores();
        assert!(!all.is_empty());
        let kept = std::thread::spawn(move || {
            keep_off_spinning_workers(&config).map(|()| affinity::allowed_cores())
        });
        kept.join().unwrap()
    }

    #[test]
    fn other_threads_stay_off_the_cores_of_workers_that_spin() {
        let all = affinity::process_cores();
        let Some((first, others)) = all.split_first().filter(|(_, others)| !others.is_empty())
        else {
            // On one core there is no choice.
            return assert_eq!(left(config("\"auto\"", "spin = \"1ms\"")).unwrap(), all);
        };
        let one = format!("[{first}]");
        assert_eq!(left(config(&one, "")).unwrap(), all);
        for keys in ["spin = \"50us\"", "spin_always = true"] {
            assert_eq!(left(config(&one, keys)).unwrap(), others);
            assert_eq!(left(config("\"auto\"", keys)).unwrap(), all);
        }
    }

    #[test]
    fn real_time_workers_that_spin_on_all_cores_are_refused() {
        for spin in ["spin_always = true", "spin = \"1us\""] {
            for class in ["fifo", "rr"] {
                let keys = format!("{spin}\nscheduler = \"{class}\"");
                let on_all = config("\"auto\"", &keys);
                assert!(matches!(check_real_time(&on_all), Err(BootError::NoCoreLeft)));
                let refused = left(on_all).unwrap_err().to_string();
                assert!(refused.contains("list fewer in `cores`"), "{refused}");
            }
            let normal = format!("{spin}\nscheduler = \"normal\"");
            assert!(left(config("\"auto\"", &normal)).is_ok());
        }
        assert!(left(config("\"auto\"", "scheduler = \"fifo\"")).is_ok());
    }
}
