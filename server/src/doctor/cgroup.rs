//! CPU time that the process does not get: by a quota of its control group, or because other machines run on the same hardware.

use super::facts::HostFacts;
use super::files::{HostFiles, NoValue, nonsense};
use super::finding::{Fix, HostCheck, HostFinding};
use super::sample::{CpuTotals, HostSample};

const QUOTA: HostCheck =
    HostCheck { name: "cpu_quota", source: "Linux admin-guide/cgroup-v2, cpu.max" };
const STEAL: HostCheck = HostCheck { name: "cpu_steal", source: "proc_stat(5), steal" };

/// Control group of the server's unit of systemd.
const SERVICE: &str = "system.slice/sluicegate.service";
/// Part of the CPU time, in percent, that is worth a warning if it is stolen: where bbr3 serves clients, and elsewhere.
const MUCH: [f64; 2] = [1.0, 10.0];
/// Why a starved sender is slow.
const STARVED: &str = "bbr3 takes the pauses for a slow path, and caps itself";

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    vec![quota(facts), steal(facts)]
}

/// Returns whether systemd runs the server on this host.
fn has_service(files: &HostFiles) -> bool {
    !files.is_container() && files.exists(&format!("sys/fs/cgroup/{SERVICE}"))
}

/// Returns the cores that the service, or else this process, may use at a time; `None` without a quota.
fn cores(files: &HostFiles) -> Result<Option<f64>, NoValue> {
    let mut least: Option<f64> = None;
    let groups = if has_service(files) {
        format!("0::/{SERVICE}")
    } else {
        files.text("proc/self/cgroup")?
    };
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let is_cpu = controllers.split(',').any(|controller| controller == "cpu");
        if !controllers.is_empty() && !is_cpu {
            continue;
        }
        // Relative to a control group above the one that is shown here.
        let path = if path.contains("..") { "/" } else { path };
        for group in std::path::Path::new(path).ancestors() {
            let group = group.to_string_lossy();
            let group = group.trim_end_matches('/');
            let found = if controllers.is_empty() {
                unified(files, &format!("sys/fs/cgroup{group}/cpu.max"))
            } else {
                legacy(files, &format!("sys/fs/cgroup/cpu{group}"))
            };
            match found {
                Ok(Some(cores)) => least = Some(least.map_or(cores, |least| least.min(cores))),
                Ok(None) => {}
                Err(cause) if cause.is_missing() => {}
                Err(cause) => return Err(cause),
            }
        }
    }
    Ok(least)
}

/// Reads a quota of cgroup v2: microseconds in each period, or `max`.
fn unified(files: &HostFiles, name: &str) -> Result<Option<f64>, NoValue> {
    let text = files.text(name)?;
    let mut words = text.split_whitespace();
    let (quota, period) = (words.next().unwrap_or_default(), words.next().unwrap_or("100000"));
    if quota == "max" {
        return Ok(None);
    }
    match (quota.parse::<u64>(), period.parse::<u64>()) {
        (Ok(quota), Ok(period)) if period > 0 => Ok(Some(share(quota, period))),
        _ => Err(nonsense(name, &text)),
    }
}

/// Reads a quota of cgroup v1, which is negative where there is none.
fn legacy(files: &HostFiles, folder: &str) -> Result<Option<f64>, NoValue> {
    let quota: i64 = files.value(&format!("{folder}/cpu.cfs_quota_us"))?;
    let period: u64 = files.value(&format!("{folder}/cpu.cfs_period_us"))?;
    Ok(u64::try_from(quota).ok().filter(|_| period > 0).map(|quota| share(quota, period)))
}

#[expect(clippy::cast_precision_loss, reason = "a ratio that is shown to a digit")]
fn share(part: u64, all: u64) -> f64 {
    part as f64 / all as f64
}

fn quota(facts: &HostFacts<'_>) -> HostFinding {
    let owner = if has_service(&facts.files) {
        "the service sluicegate.service"
    } else {
        facts.files.owner()
    };
    let cores = match cores(&facts.files) {
        Ok(Some(cores)) => cores,
        Ok(None) => {
            return QUOTA.fine("", format!("no quota bounds the CPU time (of {owner})"));
        }
        Err(cause) if cause.is_missing() => {
            return QUOTA.skipped("", "the kernel has no control groups");
        }
        Err(cause) => return QUOTA.unknown("", cause),
    };
    let workers = facts.needs.cores().len();
    let found = format!(
        "a quota grants the time of {cores:.1} cores (of {owner}), and the workers run on {workers}"
    );
    if cores >= share(workers as u64, 1) {
        return QUOTA.fine("", found);
    }
    let pauses =
        "a worker that has used up the quota stands still until the next period, up to 0.1 s";
    let found = match facts.needs.model_based.first() {
        Some(_) => format!("{found}: {pauses}, and {STARVED}"),
        None => format!("{found}: {pauses}"),
    };
    let wanted = format!("no quota, or one of {workers} cores, or fewer `cores` in the groups");
    let fix = if facts.files.is_container() {
        Fix::Container(format!("--cpus={workers}"))
    } else {
        Fix::Host("systemctl set-property sluicegate.service CPUQuota=".to_owned())
    };
    QUOTA.warning("", found, &wanted, fix)
}

fn steal(facts: &HostFacts<'_>) -> HostFinding {
    let now = HostSample::read(&facts.files);
    let (before, now) = match (&facts.before.cpu, &now.cpu) {
        (Ok(before), Ok(now)) => (before, now),
        (Err(cause), _) | (_, Err(cause)) => return STEAL.unknown("", cause),
    };
    let since = CpuTotals {
        all: now.all.saturating_sub(before.all),
        stolen: now.stolen.saturating_sub(before.stolen),
    };
    let percent = |totals: &CpuTotals| 100.0 * share(totals.stolen, totals.all.max(1));
    let (ever, lately, seconds) = (percent(now), percent(&since), facts.elapsed.as_secs_f64());
    let found = format!(
        "other virtual machines on the same hardware took {ever:.1} % of the CPU time since the host was started, and {lately:.1} % in \
         the last {seconds:.1} s"
    );
    let has_model = !facts.needs.model_based.is_empty();
    if ever.max(lately) < MUCH[usize::from(!has_model)] {
        return STEAL.fine("", found);
    }
    let found = if has_model { format!("{found}; {STARVED}") } else { found };
    let advice =
        "ask the provider of the machine for dedicated CPUs; nothing on this host can mend it";
    STEAL.warning("", found, "next to none", Fix::Advice(advice.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{BBR, Scratch, only};

    fn find(host: &Scratch, keys: &str, name: &str) -> HostFinding {
        host.with(keys, |facts| only(check(facts), name))
    }

    #[test]
    fn a_quota_below_the_workers_cores_is_named() {
        let host = Scratch::new();
        let find = || find(&host, "cores = [0, 1]", "cpu_quota");
        assert_eq!(find().state, NotApplicable);
        host.write("proc/self/cgroup", "0::/system.slice/sluicegate.service\n");
        assert_eq!(find().state, Fine);
        let quota =
            |text: &str| host.write("sys/fs/cgroup/system.slice/sluicegate.service/cpu.max", text);
        for (text, expected) in [
            ("max 100000\n", Fine),
            ("200000 100000\n", Fine),
            ("150000 100000\n", Warning),
            ("18446744073709551615 1", Fine),
            ("18446744073709551616 1", Unknown),
            ("1 0", Unknown),
            ("", Unknown),
            ("lots", Unknown),
        ] {
            quota(text);
            assert_eq!(find().state, expected, "{text}");
        }
        // One of a group above holds, too.
        quota("max 100000");
        host.write("sys/fs/cgroup/system.slice/cpu.max", "50000 100000");
        let found = find();
        assert!(found.state == Warning && found.found.contains("0.5 cores"), "{found:?}");
        assert_eq!(found.fix.unwrap().place(), "host");
        host.write("run/.containerenv", "");
        assert_eq!(find().fix.unwrap().text(), "docker run --cpus=2 ...");
    }

    #[test]
    fn the_service_has_a_quota_of_its_own() {
        let host = Scratch::new();
        let find = || find(&host, "cores = [0, 1]", "cpu_quota");
        host.write("proc/self/cgroup", "0::/user.slice\n");
        host.write("sys/fs/cgroup/user.slice/cpu.max", "50000 100000");
        let found = find();
        assert!(found.state == Warning && found.found.contains("of the shell"), "{found:?}");
        host.write("sys/fs/cgroup/system.slice/sluicegate.service/cpu.max", "max 100000");
        let found = find();
        assert!(found.state == Fine && found.found.contains("sluicegate.service"), "{found:?}");
        host.write("sys/fs/cgroup/system.slice/sluicegate.service/cpu.max", "150000 100000");
        assert_eq!(find().state, Warning);
        // In a container its own group counts.
        host.write(".dockerenv", "");
        assert!(find().found.contains("0.5 cores (of the container)"));
    }

    #[test]
    fn quotas_of_cgroup_v1_are_read() {
        let host = Scratch::new();
        host.write(
            "proc/self/cgroup",
            "9:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/x\n",
        );
        let find = || find(&host, "cores = [0, 1]", "cpu_quota");
        assert_eq!(find().state, Fine);
        // In a container its own group is the root.
        host.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        host.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
        assert_eq!(find().state, Fine);
        host.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
        assert_eq!(find().state, Warning);
        host.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "x");
        assert_eq!(find().state, Unknown);
        host.write("proc/self/cgroup", "nonsense\n0::/../../x\n");
        assert_eq!(find().state, Fine);
    }

    #[test]
    fn stolen_time_matters_most_to_a_model_of_the_path() {
        for (stat, plain, model) in [
            ("cpu  90 0 0 9 0 0 0 0 0 0\n", Fine, Fine),
            ("cpu  90 0 0 9 0 0 0 5 0 0\n", Fine, Warning),
            ("cpu  50 0 0 9 0 0 0 50 0 0\n", Warning, Warning),
            ("cpu  0 0 0 0 0 0 0 0\n", Fine, Fine),
            ("cpu  18446744073709551615 1 1 1 1 1 1 1 1 1", Fine, Fine),
            ("cpu  1 2 3\n", Unknown, Unknown),
            ("cpu  a b c d e f g h\n", Unknown, Unknown),
            ("", Unknown, Unknown),
        ] {
            let host = Scratch::new();
            host.write("proc/stat", stat);
            let states = ["", BBR].map(|keys| find(&host, keys, "cpu_steal").state);
            assert_eq!(states, [plain, model], "{stat}");
        }
    }
}
