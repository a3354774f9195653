//! `deploy/host-setup` on a host of files, with commands that only change these.
#![expect(clippy::unwrap_used, reason = "what can't be set up fails the test")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

const CARD: &str = "0000:03:00.0";

/// Files of the kernel with their content.
const FILES: [(&str, &str); 12] = [
    ("proc/sys/vm/nr_hugepages", "2"),
    (
        "proc/interrupts",
        "           CPU0       CPU1\n 24:          0          0   PCI-MSIX-0000:00:03.0   0-edge      virtio1-config\n \
         25:   9   9   PCI-MSIX-0000:00:03.0   1-edge      virtio1-input.0\n \
         26:   9   9   PCI-MSIX-0000:00:03.0   2-edge      virtio1-output.0\n \
         27:   9   9   PCI-MSIX-0000:00:03.0   3-edge      virtio1-input.1\n",
    ),
    ("proc/irq/25/smp_affinity_list", "0-1"),
    ("proc/irq/27/smp_affinity_list", "0-1"),
    ("sys/class/net/eth1/flags", "0x1002"),
    ("sys/devices/0000:00:03.0/virtio1/device", "0x0001"),
    ("sys/devices/0000:00:03.0/msi_irqs/24", "msix"),
    ("sys/devices/0000:00:03.0/msi_irqs/25", "msix"),
    ("sys/devices/0000:00:03.0/msi_irqs/26", "msix"),
    ("sys/devices/0000:00:03.0/msi_irqs/27", "msix"),
    ("sys/bus/pci/devices/0000:03:00.0/net/eth2/flags", "0x1002"),
    ("sys/kernel/iommu_groups/0/type", "DMA"),
];

/// Commands in place of the host's: each appends itself to a log.
const COMMANDS: [(&str, &str); 3] = [
    (
        "ethtool",
        r#"if [ "$1" = -l ]; then
    printf 'Pre-set maximums:\nCombined:\t8\nCurrent hardware settings:\nRX:\tn/a\nTX:\tn/a\nCombined:\t%s\n' "$(cat "$ROOT/queues")"
else
    echo "ethtool $*" >>"$ROOT/log"
    echo "$4" >"$ROOT/queues"
fi"#,
    ),
    (
        "ip",
        r#"echo "ip $*" >>"$ROOT/log"
[ "$4" = up ] && flags=0x1003 || flags=0x1002
echo $flags >"$ROOT/sys/class/net/$3/flags""#,
    ),
    // The kernel would give the card to the driver when it is asked to probe.
    (
        "modprobe",
        r#"echo "modprobe $*" >>"$ROOT/log"
[ "$1" != vfio-pci ] || ln -sfn ../../drivers/vfio-pci "$ROOT/sys/bus/pci/devices/0000:03:00.0/driver""#,
    ),
];

/// A host in a folder of its own, removed when dropped.
struct Host(PathBuf);

impl Host {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let host = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("host-{number}")));
        let _ = fs::remove_dir_all(&host.0);
        for (name, content) in FILES {
            host.write(name, content);
        }
        for (name, script) in COMMANDS {
            let file = format!("bin/{name}");
            host.write(&file, &format!("#!/bin/sh\n{script}"));
            fs::set_permissions(host.0.join(file), fs::Permissions::from_mode(0o755)).unwrap();
        }
        for driver in ["ixgbe", "vfio-pci"] {
            fs::create_dir_all(host.0.join("sys/bus/pci/drivers").join(driver)).unwrap();
        }
        let device = host.0.join("sys/class/net/eth1/device");
        symlink("../../../devices/0000:00:03.0/virtio1", device).unwrap();
        let driver = format!("sys/bus/pci/devices/{CARD}/driver");
        symlink("../../drivers/ixgbe", host.0.join(driver)).unwrap();
        fs::create_dir(host.0.join("run")).unwrap();
        host.write("queues", "4");
        host.write("log", "");
        host
    }

    fn write(&self, name: &str, content: &str) {
        let file = self.0.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("{content}\n")).unwrap();
    }

    fn read(&self, name: &str) -> String {
        let content = fs::read_to_string(self.0.join(name)).unwrap();
        content.trim().to_owned()
    }

    /// Runs the script. Returns whether it succeeded, and what it said.
    fn run(&self, arguments: &str) -> (bool, String) {
        let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.0.join("bin").display());
        let output = Command::new(script())
            .args(arguments.split_whitespace())
            .env("SLUICEGATE_HOST_ROOT", &self.0)
            .env("ROOT", &self.0)
            .env("PATH", path)
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let said = String::from_utf8(output.stdout).unwrap() + &errors;
        let root = self.0.to_str().unwrap();
        (output.status.success(), said.replace(root, ""))
    }

    /// Returns all that the script may change.
    fn values(&self) -> Vec<String> {
        let files = [
            "proc/sys/vm/nr_hugepages",
            "proc/irq/25/smp_affinity_list",
            "proc/irq/27/smp_affinity_list",
            "sys/class/net/eth1/flags",
            "queues",
        ];
        files.map(|file| self.read(file)).to_vec()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/host-setup")
}

const INTERFACE: &str = "apply --hugepages 64 --interface eth1 --queues 2 --irq-cores 2,3";

const COMMANDS_OF_IT: &str = "+ echo 64 >/proc/sys/vm/nr_hugepages\n+ ip link set eth1 up\n\
     + ethtool -L eth1 combined 2\n+ echo 2 >/proc/irq/25/smp_affinity_list\n\
     + echo 3 >/proc/irq/27/smp_affinity_list\n";

/// Leaves out what the real host's irqbalance adds.
fn commands(said: &str) -> String {
    let lines = said.lines().filter(|line| line.starts_with('+'));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn an_interface_is_prepared_and_undo_restores_it() {
    let host = Host::new();
    let before = host.values();
    let (done, said) = host.run(INTERFACE);
    assert!(done, "{said}");
    assert_eq!(commands(&said), COMMANDS_OF_IT);
    assert_eq!(host.values(), ["64", "2", "3", "0x1003", "2"]);
    // A second time there is nothing left to do, and the former values stay known.
    assert_eq!(commands(&host.run(INTERFACE).1), "");
    let (_, kept) = host.run("status");
    assert_eq!(kept.lines().count(), 5, "{kept}");
    let (_, shown) = host.run("--dry-run undo");
    assert_eq!(host.values()[0], "64");
    let (done, said) = host.run("undo");
    assert!(done, "{said}");
    assert_eq!(said, shown);
    assert_eq!(host.values(), before);
    assert_eq!(said.lines().next(), Some("+ echo 0-1 >/proc/irq/27/smp_affinity_list"));
    assert_eq!(host.run("status").1, "nothing was changed\n");
    assert_eq!(host.run("undo"), (false, "host-setup: there is nothing to undo\n".to_owned()));
}

#[test]
fn the_interrupts_of_receive_queues_are_known_by_their_names() {
    let host = Host::new();
    let device = host.0.join("sys/class/net/eth1/device");
    fs::remove_file(&device).unwrap();
    symlink("../../../devices/0000:00:03.0", device).unwrap();
    let names = [
        ("mlx5_async0@pci:0000:03:00.0", None),
        ("mlx5_comp3@pci:0000:03:00.0", Some(3)),
        ("ena-mgmnt@pci:0000:03:00.0", None),
        ("ena: eth1-Tx-Rx-2", Some(2)),
        ("i40e-eth1-TxRx-1", Some(1)),
        ("eth1-rxtx-2", Some(2)),
        ("eth1-rx-1", Some(1)),
        ("eth1-tx-1", None),
        ("nvme0q1", None),
        ("eth1", None),
    ];
    let mut lines = String::new();
    let mut expected = String::new();
    for (irq, (name, queue)) in (30..).zip(names) {
        host.write(&format!("sys/devices/0000:00:03.0/msi_irqs/{irq}"), "msix");
        let affinity = format!("proc/irq/{irq}/smp_affinity_list");
        host.write(&affinity, "0-9");
        lines += &format!(" {irq}:  9  9  PCI-MSIX-0000:03:00.0  1-edge  {name}\n");
        if let Some(queue) = queue {
            expected += &format!("+ echo {} >/{affinity}\n", 4 + queue);
        }
    }
    host.write("proc/interrupts", &lines);
    host.write("sys/class/net/eth1/flags", "0x1003");
    let (done, said) = host.run("apply --interface eth1 --irq-cores 4,5,6,7");
    assert!(done, "{said}");
    assert_eq!(commands(&said), expected);
}

#[test]
fn a_dry_run_prints_the_commands_and_changes_nothing() {
    let host = Host::new();
    let before = host.values();
    let (done, said) = host.run(&format!("--dry-run {INTERFACE} --pci {CARD}"));
    assert!(done, "{said}");
    assert!(commands(&said).starts_with(COMMANDS_OF_IT), "{said}");
    assert!(said.contains(&format!("+ echo {CARD} >/sys/bus/pci/drivers_probe")), "{said}");
    assert_eq!(host.values(), before);
    assert_eq!(host.read("log"), "");
    assert_eq!(host.run("status").1, "nothing was changed\n");
}

#[test]
fn a_card_is_bound_and_given_back() {
    let host = Host::new();
    let device = format!("sys/bus/pci/devices/{CARD}");
    let (done, said) = host.run(&format!("apply --pci {CARD}"));
    assert!(done, "{said}");
    assert_eq!(host.read("log"), "modprobe vfio-pci");
    assert_eq!(host.read(&format!("{device}/driver_override")), "vfio-pci");
    assert_eq!(host.read("sys/bus/pci/drivers_probe"), CARD);
    let (done, said) = host.run("undo");
    assert!(done, "{said}");
    assert_eq!(host.read(&format!("{device}/driver_override")), "");
    assert_eq!(host.read("sys/bus/pci/drivers/vfio-pci/unbind"), CARD);
}

#[test]
fn a_card_in_use_and_a_host_without_iommu_are_refused() {
    let host = Host::new();
    // It is up, and has no link.
    let flags = format!("sys/bus/pci/devices/{CARD}/net/eth2/flags");
    host.write(&flags, "0x1003");
    let card = format!("apply --pci {CARD}");
    let (done, said) = host.run(&card);
    assert!(!done && said.contains("eth2, which is up"), "{said}");
    fs::remove_dir_all(host.0.join("sys/kernel/iommu_groups")).unwrap();
    let (done, said) = host.run(&format!("{card} --force"));
    assert!(!done && said.contains("has no IOMMU"), "{said}");
    let unsafe_mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    host.write(unsafe_mode, "N");
    let (done, said) = host.run(&format!("{card} --force --no-iommu"));
    assert!(done, "{said}");
    assert_eq!(host.read(unsafe_mode), "Y");
    assert!(host.run("undo").0);
    assert_eq!(host.read(unsafe_mode), "N");
}

#[test]
fn a_host_that_lacks_something_is_told_so_in_one_line() {
    let host = Host::new();
    for (arguments, cause) in [
        ("apply", "nothing to do"),
        ("apply --queues 2", "need --interface"),
        ("apply --hugepages many", "--hugepages takes a number, not 'many'"),
        ("apply --hugepages", "--hugepages needs a value"),
        ("apply --huge 3", "unknown option --huge"),
        ("apply --interface eth9", "no network interface eth9"),
        ("apply --pci 0000:09:00.0", "no PCI device 0000:09:00.0"),
        ("apply --interface eth1 --irq-cores x", "--irq-cores takes numbers with commas, not 'x'"),
    ] {
        let (done, said) = host.run(arguments);
        assert!(!done && said.contains(cause), "{arguments}: {said}");
        let errors = said.lines().filter(|line| line.starts_with("host-setup:"));
        assert_eq!(errors.count(), 1, "{said}");
    }
    fs::remove_file(host.0.join("proc/interrupts")).unwrap();
    host.write("proc/interrupts", "");
    let (done, said) = host.run("apply --interface eth1 --irq-cores 0");
    assert!(!done && said.contains("eth1 has no interrupts"), "{said}");
    assert!(!host.run("applies").0);
    assert!(host.run("--help").1.contains("--hugepages COUNT"));
}

#[test]
fn a_step_that_cannot_be_undone_is_kept() {
    let host = Host::new();
    assert!(host.run("apply --hugepages 64 --interface eth1").0);
    host.write("bin/ip", "#!/bin/sh\nexit 1");
    let (done, said) = host.run("undo");
    assert!(!done && said.contains("not undone: 'run ip link set eth1 down'"), "{said}");
    assert_eq!(host.values()[0], "64");
    host.write("bin/ip", "#!/bin/sh\nexit 0");
    assert!(host.run("undo").0);
    assert_eq!(host.values()[0], "2");
}

#[test]
fn shellcheck_finds_nothing() {
    match Command::new("shellcheck").arg(script()).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout))
        }
        Err(e) => println!("skipped without shellcheck: {e}"),
    }
}
