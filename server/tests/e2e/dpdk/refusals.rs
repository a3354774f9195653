//! What the server refuses of a port: at the start in one line with cause and remedy, and at a reload.

use super::network::Network;
use super::on_a_port::{does_not_start, does_not_start_within, pages, setup, start, stop};
use crate::server::{Folder, Setup};

/// Returns a configuration of an interface with a worker for each of its two queues.
fn on(driver: &str) -> Setup {
    setup(&format!("{driver}:sga"), 2)
}

#[test]
#[ignore = "run by over_a_veth_pair"]
fn a_missing_right_is_named() {
    let network = Network::new(2);
    let folder = Folder::new();
    for (driver, right, name) in [
        ("af_packet", "net_raw", "CAP_NET_RAW"),
        ("af_packet", "net_admin", "CAP_NET_ADMIN"),
        ("af_xdp", "bpf", "CAP_BPF"),
    ] {
        let bounding = format!("--bounding-set=-{right}");
        let inherited = format!("--inh-caps=-{right}");
        let within = ["setpriv", &bounding, &inherited];
        let cause = format!("the process needs {name}, see deploy/dpdk.md");
        does_not_start_within(&within, &network, &on(driver), &folder, &cause);
    }
}

#[test]
#[ignore = "run by over_a_veth_pair"]
fn too_few_buffers_and_a_port_that_is_taken_are_named() {
    let network = Network::new(2);
    let folder = Folder::new();
    let few = "memory = \"16MiB\"\nrx_descriptors = 8192\nframes";
    let small = on("af_packet").replace("frames", few);
    does_not_start(&network, &small, &folder, "raise `dpdk.memory`");
    let taken = on("af_xdp");
    let server = start(&network, &taken, &folder);
    does_not_start(&network, &taken, &Folder::new(), "stop its owner");
    pages(&folder);
    stop(server);
}

#[test]
#[ignore = "run by over_a_veth_pair"]
fn a_reload_that_changes_the_port_needs_a_restart_and_the_server_goes_on() {
    let network = Network::new(2);
    let folder = Folder::new();
    let mut server = start(&network, &on("af_packet"), &folder);
    for (from, to, key) in [
        ("af_packet:sga", "af_packet:sgb", "group.dpdk.device"),
        ("/24", "/25", "group.dpdk.addresses"),
        ("frames", "vlan = 7\nframes", "group.dpdk.vlan"),
    ] {
        let changed = on("af_packet").replace(from, to);
        let line = server.reload(&changed, &folder, "configuration refused");
        assert!(line.contains(key) && line.contains("restart it"), "{line}");
        pages(&folder);
    }
    // The kernel does not have the addresses, so there is no TCP.
    let other = on("af_packet").replace("It is served.", "It is another page.");
    server.reload(&other, &folder, "configuration reloaded");
    stop(server);
}
