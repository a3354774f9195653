//! Counters of the kernel that tell something by their growth.

use std::collections::BTreeMap;

use super::files::{HostFiles, NoValue, nonsense};

/// Counters at one time.
#[derive(Clone, Debug)]
pub(crate) struct HostSample {
    pub(super) udp: Result<UdpTotals, NoValue>,
    pub(super) cpu: Result<CpuTotals, NoValue>,
    /// Datagrams that sockets of UDP dropped since they were opened, by their local ports.
    pub(super) drops: Result<BTreeMap<u16, u64>, NoValue>,
}

/// Datagrams of all sockets since the host was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UdpTotals {
    /// Datagrams that programs have read.
    pub(super) received: u64,
    /// Datagrams dropped because the buffer of their socket was full.
    pub(super) dropped: u64,
}

/// Time of all cores since the host was started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTotals {
    pub(super) all: u64,
    /// Time in which the hypervisor ran other machines while this one had work.
    pub(super) stolen: u64,
}

impl HostSample {
    /// Reads the counters.
    pub(crate) fn read(files: &HostFiles) -> Self {
        Self { udp: udp(files), cpu: cpu(files), drops: drops(files) }
    }
}

fn udp(files: &HostFiles) -> Result<UdpTotals, NoValue> {
    const V4: &str = "proc/net/snmp";
    let text = files.text(V4)?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = lines.next().zip(lines.next()).ok_or_else(|| nonsense(V4, &text))?;
    let of_v4 = |wanted: &str| -> Option<u64> {
        let mut columns = names.split_whitespace().zip(values.split_whitespace());
        columns.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    let (received, dropped) =
        of_v4("InDatagrams").zip(of_v4("RcvbufErrors")).ok_or_else(|| nonsense(V4, values))?;
    // A host without IPv6 has no such file.
    let v6 = files.text("proc/net/snmp6").unwrap_or_default();
    let of_v6 = |wanted: &str| -> u64 {
        let mut lines = v6.lines().filter_map(|line| line.split_once(char::is_whitespace));
        lines.find(|(name, _)| *name == wanted).map_or(0, |(_, v)| v.trim().parse().unwrap_or(0))
    };
    Ok(UdpTotals {
        received: received.saturating_add(of_v6("Udp6InDatagrams")),
        dropped: dropped.saturating_add(of_v6("Udp6RcvbufErrors")),
    })
}

fn drops(files: &HostFiles) -> Result<BTreeMap<u16, u64>, NoValue> {
    let mut drops: BTreeMap<u16, u64> = BTreeMap::new();
    for file in ["proc/net/udp", "proc/net/udp6"] {
        let text = match files.text(file) {
            Ok(text) => text,
            Err(NoValue::Missing(_)) => continue,
            Err(cause) => return Err(cause),
        };
        for (port, dropped) in text.lines().filter_map(socket) {
            let sum = drops.entry(port).or_default();
            *sum = sum.saturating_add(dropped);
        }
    }
    Ok(drops)
}

/// Returns the local port and the drops in a line of `/proc/net/udp`.
fn socket(line: &str) -> Option<(u16, u64)> {
    let mut columns = line.split_whitespace();
    let (_, port) = columns.nth(1)?.rsplit_once(':')?;
    let drops = columns.last()?.parse().ok()?;
    Some((u16::from_str_radix(port, 16).ok()?, drops))
}

fn cpu(files: &HostFiles) -> Result<CpuTotals, NoValue> {
    const STAT: &str = "proc/stat";
    /// Place of the stolen time among the columns; what follows is part of earlier ones (`proc_stat(5)`).
    const STOLEN: usize = 7;
    let text = files.text(STAT)?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "));
    let line = line.ok_or_else(|| nonsense(STAT, &text))?;
    let columns: Option<Vec<u64>> =
        line.split_whitespace().take(STOLEN + 1).map(|column| column.parse().ok()).collect();
    let columns = columns.filter(|all| all.len() > STOLEN).ok_or_else(|| nonsense(STAT, line))?;
    let all = columns.iter().fold(0u64, |sum, column| sum.saturating_add(*column));
    Ok(CpuTotals { all, stolen: columns[STOLEN] })
}
