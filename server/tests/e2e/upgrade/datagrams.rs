//! Each datagram that the kernel delivers is accounted for by the counters of all processes together, as docs/upgrade.md says.
//!
//! The test runs this program again in a network namespace, with the ignored tests of this file: the kernel counts for a namespace.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::task::LocalSet;

use super::load::{Download, Load, ask_as_strangers, ask_on};
use super::{Line, PIECE, setup};
use crate::admin::{metrics, sum};
use crate::client::{Client, run};
use crate::namespace::{Namespace, run_ignored, sh};
use crate::server::{Folder, Setup};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(SERVER), 9180);
/// Looks before the sums have to be right.
const LOOKS: usize = 1500;
/// Size of a download, bytes.
const DOWNLOAD: u64 = 8 * PIECE;

#[test]
fn each_datagram_is_accounted_for() {
    // Each has a network of its own, with the same addresses.
    for backend in ["mio", "io_uring"] {
        run_ignored(&format!("upgrade::datagrams::in_a_namespace::{backend}::"), 1);
    }
}

/// Returns a namespace with the server's address, which clients reach from that of the test.
fn network() -> Namespace {
    let server = Namespace::new();
    let holder = server.holder();
    sh(&format!(
        "ip link add outer type veth peer name inner netns {holder} && ip addr add {CLIENT}/24 dev outer && ip link set outer up"
    ));
    server.sh(&format!(
        "ip link set lo up && ip addr add {SERVER}/24 dev inner && ip link set inner up"
    ));
    server
}

/// Returns the number of messages that the kernel has passed to the sockets of a namespace.
fn delivered(network: &Namespace) -> f64 {
    let page = network.sh("cat /proc/net/snmp");
    let mut lines = page.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "InDatagrams").unwrap().1.parse().unwrap()
}

/// Returns what is left of each sum of docs/upgrade.md: datagrams of which no counter tells, or two do.
fn differences(network: &Namespace, all: &BTreeMap<String, f64>) -> [f64; 3] {
    let total = |name: &str| sum(all, &format!("sluicegate_{name}"));
    [
        delivered(network) - total("received_messages_total"),
        total("received_datagrams_total") + total("datagrams_taken_over_total")
            - total("datagrams_processed_total"),
        total("datagrams_handed_over_total")
            - total("datagrams_taken_over_total")
            - total("datagrams_handover_lost_total"),
    ]
}

/// Waits until nothing is on its way, and checks the sums.
async fn assert_all_counted(network: &Namespace) {
    let mut before = BTreeMap::new();
    for _ in 0..LOOKS {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let mut now = metrics(ADMIN);
        now.retain(|name, _| name.contains("datagrams") || name.contains("received_messages"));
        if now == before && differences(network, &now) == [0.0; 3] {
            return;
        }
        before = now;
    }
    panic!("{:?} are left: {before:#?}", differences(network, &before));
}

fn configuration(backend: &str) -> Setup {
    let admin = format!("[admin]\naddress = \"{ADMIN}\"");
    let setup = setup(backend).replace(crate::admin::ADMIN, &admin);
    setup.replace("127.0.0.1:0", &format!("{SERVER}:4433"))
}

async fn upgrades(network: &Namespace, backend: &str) {
    let setup = configuration(backend);
    let mut line = Line::start_within(network, &setup, Folder::new());
    let (at, client) = (line.server.address(), |line: &Line| Client::bound(&line.folder, CLIENT));
    let mut kept = Load::start(2, |progress| ask_on(client(&line), at, progress));
    let mut new = Load::start(2, |progress| ask_as_strangers(client(&line), at, progress, 1));
    let mut downloads = Vec::new();
    let mut former = line.process.clone();
    for workers in [3, 1, 4] {
        let mut download = Download::begin(client(&line), at, DOWNLOAD).await;
        download.go_on(PIECE).await;
        downloads.push(download);
        let cores = format!("cores = [{}]", vec!["0"; workers].join(", "));
        line.rewrite(&setup.clone().replace("cores = [0, 0]", &cores));
        former.clone_from(&line.process);
        line.upgrade_beside().await;
        for download in &mut downloads {
            download.change_port();
            download.go_on(PIECE).await;
        }
        kept.go_on(50).await;
        new.go_on(10).await;
    }
    line.back_beside(&former).await;
    kept.go_on(50).await;
    new.end().await;
    kept.end().await;
    for download in downloads {
        download.end().await;
    }
    assert_all_counted(network).await;
    let all = metrics(ADMIN);
    let of = |name: &str| sum(&all, &format!("sluicegate_datagrams_{name}"));
    assert!(of("handed_over_total") > 0.0 && of("processed_total{outcome=\"handed_over\"}") > 0.0);
    line.end();
}

mod in_a_namespace {
    use super::*;
    use crate::on_every_backend;

    on_every_backend!(
        #[ignore = "run by each_datagram_is_accounted_for"]
        all_processes_together_count_what_the_kernel_delivers,
    );

    fn all_processes_together_count_what_the_kernel_delivers(backend: &str) {
        let network = network();
        run(LocalSet::new().run_until(upgrades(&network, backend)));
    }
}
