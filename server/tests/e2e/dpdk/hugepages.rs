//! Buffers in huge pages of the host.

use std::fs;
use std::thread::park_timeout;
use std::time::Duration;

use super::network::Network;
use super::on_a_port::{download, pages, setup, start, stop};
use crate::server::Folder;
use crate::skip;

const COUNT: &str = "/proc/sys/vm/nr_hugepages";
/// Pages that the test adds, 2 MiB each: enough for a port with two queues.
const ADDED: u64 = 48;

/// Huge pages on top of those that the host has. Given back when dropped.
struct Pages {
    before: u64,
}

impl Pages {
    /// Returns none where the host does not allow them, or has no room.
    fn add() -> Result<Pages, String> {
        let pages = Pages { before: number("Total") };
        let wanted = pages.before + ADDED;
        fs::write(COUNT, wanted.to_string()).map_err(|error| format!("{COUNT}: {error}"))?;
        if number("Total") < wanted {
            return Err("the host has no memory for huge pages".to_owned());
        }
        Ok(pages)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = fs::write(COUNT, self.before.to_string());
    }
}

/// Returns the host's number of huge pages, `Total` or `Free`.
fn number(which: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let name = format!("HugePages_{which}:");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// Waits until so many huge pages are free: the kernel frees those of AF_XDP some time after the process has ended.
fn wait_for(free: u64) {
    for _ in 0..100 {
        if number("Free") == free {
            return;
        }
        park_timeout(Duration::from_millis(100));
    }
    panic!("{} huge pages are free, not {free}", number("Free"));
}

#[test]
#[ignore = "run by over_a_veth_pair"]
fn huge_pages_hold_the_buffers_and_are_free_after_a_stop_and_a_kill() {
    let _pages = match Pages::add() {
        Ok(pages) => pages,
        Err(cause) => return skip("dpdk", &cause),
    };
    for device in ["af_packet:sga", "af_xdp:sga"] {
        let network = Network::new(2);
        let folder = Folder::new();
        let setup = setup(device, 2).replace("[group.dpdk]", "[group.dpdk]\nhugepages = true");
        let free = number("Free");
        let mut server = start(&network, &setup, &folder);
        assert!(number("Free") < free, "{device} uses no huge page");
        pages(&folder);
        server.process.kill();
        wait_for(free);
        let server = start(&network, &setup, &folder);
        pages(&folder);
        download(&folder, 20_000_000);
        stop(server);
        wait_for(free);
    }
}
