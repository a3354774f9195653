//! The cores of workers: what else runs there, how deep they sleep, and how fast they run.

use sluicegate_config::Scheduler;

use super::facts::HostFacts;
use super::files::{named, ranges};
use super::finding::{Fix, HostCheck, HostFinding};
use super::limits;
use super::needs::ServedGroup;

const ISOLATION: HostCheck = HostCheck {
    name: "isolated_cores",
    source: "Linux admin-guide/kernel-parameters, isolcpus; config/example.toml, scheduler",
};
const IDLE: HostCheck = HostCheck {
    name: "cpu_idle",
    source: "Linux power/pm_qos_interface, /dev/cpu_dma_latency; config/example.toml, cpu_latency",
};
const GOVERNOR: HostCheck =
    HostCheck { name: "cpu_governor", source: "Linux admin-guide/pm/cpufreq, scaling_governor" };

pub(super) fn check(facts: &HostFacts<'_>) -> Vec<HostFinding> {
    let mut found: Vec<HostFinding> =
        facts.needs.groups.iter().map(|group| isolation(facts, group)).collect();
    found.push(idle(facts));
    found.push(governor(facts));
    found
}

fn isolation(facts: &HostFacts<'_>, group: &ServedGroup<'_>) -> HostFinding {
    let is_real_time = group.group.scheduler != Scheduler::Normal;
    if !is_real_time && !group.group.spin_always {
        return ISOLATION
            .skipped(group.name(), "the workers share their cores with other programs");
    }
    let isolated = match facts.files.cores("sys/devices/system/cpu/isolated") {
        Ok(isolated) => isolated,
        Err(cause) => return ISOLATION.unknown(group.name(), cause),
    };
    let shared: Vec<usize> =
        group.cores.iter().copied().filter(|c| !isolated.contains(c)).collect();
    if shared.is_empty() {
        return ISOLATION
            .fine(group.name(), "the kernel keeps other programs off the workers' cores");
    }
    let (all, key) = (ranges(&group.cores), if is_real_time { "scheduler" } else { "spin_always" });
    let found = format!(
        "the workers keep their cores to themselves (`{key}`), and the kernel also runs other programs on {}",
        named(&shared)
    );
    let online = facts.files.cores("sys/devices/system/cpu/online").unwrap_or_default();
    if online.iter().all(|core| group.cores.contains(core)) {
        let fewer = format!("fewer `cores` in the group {}", group.name());
        let wanted = "at least one core for everything else, and the others isolated (isolcpus)";
        return ISOLATION.warning(group.name(), found, wanted, Fix::Configuration(fewer));
    }
    let file = "/etc/default/grub.d/90-sluicegate.cfg";
    let fix = Fix::Host(format!(
        "printf 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX isolcpus={all} nohz_full={all}\"\\n' >{file} && update-grub # then reboot"
    ));
    let wanted = format!(
        "isolcpus={all} among the parameters of the kernel, so that nothing else starts there"
    );
    ISOLATION.warning(group.name(), found, &wanted, fix)
}

fn idle(facts: &HostFacts<'_>) -> HostFinding {
    const DEVICE: &str = "dev/cpu_dma_latency";
    let Some(latency) = facts.needs.config.server.cpu_latency else {
        return IDLE.skipped(
            "",
            "`server.cpu_latency` is not set: the host decides how deep its cores sleep",
        );
    };
    if facts.probe.may_write(&facts.files.path(DEVICE)) {
        let found =
            format!("the server may keep cores from sleeping deeper than {latency:?} (/{DEVICE})");
        return IDLE.fine("", found);
    }
    let (cause, fix) = if facts.files.is_container() {
        ("the container has no right to it", Fix::Container(format!("--device /{DEVICE}")))
    } else if facts.files.exists(DEVICE) {
        let rule = "KERNEL==\"cpu_dma_latency\", GROUP=\"sluicegate\", MODE=\"0660\"";
        let unit = limits::drop_in(
            "cpu-latency",
            "PrivateDevices=no\\nDevicePolicy=closed\\nDeviceAllow=/dev/cpu_dma_latency rw",
        );
        let rules = "/etc/udev/rules.d/90-sluicegate.rules";
        let command = format!(
            "echo '{rule}' >{rules} && udevadm control --reload && udevadm trigger /{DEVICE} && {unit}"
        );
        ("it belongs to root", Fix::Host(command))
    } else {
        let remove = "remove `cpu_latency` from [server]: this kernel has no such device";
        ("it does not exist", Fix::Configuration(remove.to_owned()))
    };
    let found = format!("`server.cpu_latency` needs to write to /{DEVICE}, and {cause}");
    IDLE.impossible("", found, "the device, writable for the server's user", fix)
}

fn governor(facts: &HostFacts<'_>) -> HostFinding {
    let mut cores: Vec<usize> =
        facts.needs.groups.iter().flat_map(|group| group.cores.iter().copied()).collect();
    cores.sort_unstable();
    cores.dedup();
    let mut slow: Vec<usize> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    for core in &cores {
        let file = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
        match facts.files.text(&file) {
            Ok(word) if word.trim() == "performance" => {}
            Ok(word) => {
                slow.push(*core);
                let word: String =
                    word.trim().chars().filter(|c| !c.is_control()).take(20).collect();
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            Err(cause) if cause.is_missing() => {
                let why = "the host does not let the frequency of its cores be set, as in a virtual machine";
                return GOVERNOR.skipped("", why);
            }
            Err(cause) => return GOVERNOR.unknown("", cause),
        }
    }
    if slow.is_empty() {
        return GOVERNOR.fine("", "the cores of workers run at full speed");
    }
    GOVERNOR.warning(
        "",
        format!(
            "the frequency of {} falls when little is to do (governor {}), so a request after a pause takes longer",
            named(&slow),
            words.join(", ")
        ),
        "the governor performance",
        Fix::Host("for file in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance >\"$file\"; done".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::FindingState::{Fine, Impossible, NotApplicable, Unknown, Warning};
    use crate::doctor::scratch::{Scratch, only};

    #[test]
    fn workers_that_take_whole_cores_want_them_isolated() {
        let host = Scratch::new();
        let find = |keys: &str| host.with(keys, |facts| only(check(facts), "isolated_cores"));
        let keys = "cores = [2, 3]\nspin_always = true";
        assert_eq!((find("").state, find(keys).state), (NotApplicable, Unknown));
        for (isolated, expected) in [
            ("2-3\n", Fine),
            ("0-7", Fine),
            ("\n", Warning),
            ("3", Warning),
            ("x", Unknown),
            ("0-999999999", Unknown),
        ] {
            host.write("sys/devices/system/cpu/isolated", isolated);
            assert_eq!(find(keys).state, expected, "{isolated}");
            assert_eq!(find("cores = [2, 3]\nscheduler = \"fifo\"").state, expected, "{isolated}");
        }
        host.write("sys/devices/system/cpu/isolated", "");
        // All cores are taken, as far as the host says.
        assert_eq!(find(keys).fix.unwrap().place(), "configuration");
        host.write("sys/devices/system/cpu/online", "0-3");
        assert!(find(keys).fix.unwrap().text().contains("isolcpus=2-3"));
    }

    #[test]
    fn sleep_that_is_to_be_bounded_needs_the_device() {
        let host = Scratch::new();
        let find = |server: &str| host.with(server, |facts| only(check(facts), "cpu_idle"));
        assert_eq!(find("").state, NotApplicable);
        let server = "[server]\ncpu_latency = \"20us\"";
        let place = || find(server).fix.map(|fix| fix.place());
        assert_eq!((find(server).state, place()), (Impossible, Some("configuration")));
        host.write("dev/cpu_dma_latency", "");
        host.probe().allow_writes(false);
        assert_eq!((find(server).state, place()), (Impossible, Some("host")));
        host.write(".dockerenv", "");
        assert_eq!((find(server).state, place()), (Impossible, Some("container")));
        host.probe().allow_writes(true);
        assert_eq!((find(server).state, place()), (Fine, None));
    }

    #[test]
    fn a_governor_that_saves_power_is_named() {
        let host = Scratch::new();
        let find = || host.with("cores = [0, 1]", |facts| only(check(facts), "cpu_governor"));
        let set = |core: usize, word: &str| {
            host.write(&format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"), word);
        };
        assert_eq!(find().state, NotApplicable);
        set(0, "performance\n");
        set(1, "performance\n");
        assert_eq!(find().state, Fine);
        set(1, "powersave\n");
        let found = find();
        assert!(found.state == Warning && found.found.contains("of core 1 falls"), "{found:?}");
        set(1, "\u{1b}[2J");
        assert!(!find().found.contains('\u{1b}'));
        std::fs::remove_file(host.path("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"))
            .unwrap();
        std::fs::create_dir(host.path("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"))
            .unwrap();
        assert_eq!(find().state, Unknown);
    }
}
