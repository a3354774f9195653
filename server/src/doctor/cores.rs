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
    vec![isolation(facts), idle(facts), governor(facts)]
}

/// Checks the cores of all groups at once: a kernel has one list of isolated ones.
fn isolation(facts: &HostFacts<'_>) -> HostFinding {
    let is_real_time = |group: &ServedGroup<'_>| group.group.scheduler != Scheduler::Normal;
    let groups = facts.needs.groups.iter();
    let groups: Vec<&ServedGroup<'_>> =
        groups.filter(|group| is_real_time(group) || group.group.spin_always).collect();
    if groups.is_empty() {
        return ISOLATION.skipped("", "the workers share their cores with other programs");
    }
    let isolated = match facts.files.cores("sys/devices/system/cpu/isolated") {
        Ok(isolated) => isolated,
        Err(cause) => return ISOLATION.unknown("", cause),
    };
    let taken: Vec<usize> = groups.iter().flat_map(|group| group.cores.iter().copied()).collect();
    let shared: Vec<usize> = taken.iter().copied().filter(|c| !isolated.contains(c)).collect();
    if shared.is_empty() {
        return ISOLATION.fine("", "the kernel keeps other programs off the workers' cores");
    }
    let names: Vec<&str> = groups.iter().map(|group| group.name()).collect();
    let names = names.join(", ");
    let keys = match groups.iter().filter(|group| is_real_time(group)).count() {
        0 => "`spin_always`",
        count if count == groups.len() => "`scheduler`",
        _ => "`scheduler`, `spin_always`",
    };
    let found = format!(
        "the workers of {names} keep their cores to themselves ({keys}), and the kernel also runs other programs on {}",
        named(&shared)
    );
    let online = facts.files.online_cores();
    if online.iter().all(|core| taken.contains(core)) {
        let fewer = format!("fewer `cores` in {names}");
        let wanted = "at least one core for everything else, and the others isolated (isolcpus)";
        return ISOLATION.warning("", found, wanted, Fix::Configuration(fewer));
    }
    // What is isolated already stays so.
    let all = ranges(&[taken, isolated].concat());
    let file = "/etc/default/grub.d/90-sluicegate.cfg";
    let fix = Fix::Host(format!(
        "printf 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX isolcpus={all} nohz_full={all}\"\\n' >{file} && update-grub # of Debian and \
         Ubuntu; then reboot"
    ));
    let wanted = format!(
        "isolcpus={all} among the parameters of the kernel, so that nothing else starts there"
    );
    ISOLATION.warning("", found, &wanted, fix)
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
        ("this user has no right to it", Fix::Host(command))
    } else {
        let remove = "remove `cpu_latency` from [server]: this kernel has no such device";
        ("it does not exist", Fix::Configuration(remove.to_owned()))
    };
    let found = format!("`server.cpu_latency` needs to write to /{DEVICE}, and {cause}");
    let wanted = "the device, writable for the server's user";
    if facts.files.exists(DEVICE) {
        let found =
            format!("{found} (the user who runs doctor; the service may have other rights)");
        return IDLE.warning("", found, wanted, fix);
    }
    IDLE.impossible("", found, wanted, fix)
}

fn governor(facts: &HostFacts<'_>) -> HostFinding {
    let cores = facts.needs.cores();
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
        host.write("sys/devices/system/cpu/online", "0-7");
        host.write("sys/devices/system/cpu/isolated", "7");
        // The groups share a list.
        let several = "cores = [2, 3]\nspin_always = true\n[[group]]\nname = \"h\"\ncores = [5]\nscheduler = \"fifo\"";
        let found = find(several);
        assert!(found.found.contains("of g, h keep"), "{found:?}");
        assert!(found.fix.unwrap().text().contains("isolcpus=2-3,5,7 nohz_full=2-3,5,7"));
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
        // The service's group may have the right.
        assert_eq!((find(server).state, place()), (Warning, Some("host")));
        host.write(".dockerenv", "");
        assert_eq!((find(server).state, place()), (Warning, Some("container")));
        std::fs::remove_file(host.path("dev/cpu_dma_latency")).unwrap();
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
