//! The server on a port of DPDK, over a veth pair between two network namespaces.
//!
//! The test runs this program again in a network namespace, with the ignored tests of this file.

#[cfg(feature = "dpdk")]
mod beside_kernel;
#[cfg(feature = "dpdk")]
mod hugepages;
#[cfg(feature = "dpdk")]
mod network;
#[cfg(feature = "dpdk")]
mod refusals;
#[cfg(feature = "dpdk")]
mod soak;

#[cfg(not(feature = "dpdk"))]
#[test]
fn over_a_veth_pair() {
    crate::skip("dpdk", &"this build leaves DPDK out");
}

#[cfg(feature = "dpdk")]
mod on_a_port {
    use std::net::{IpAddr, SocketAddr};
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;

    use tokio::task::JoinSet;

    use super::network::{CLIENT, CLIENT_V6, Network, SERVER, SERVER_V6, ping};
    use crate::client::{Client, Counted, generated_sha256, run};
    use crate::installed;
    use crate::server::{Folder, PAGE, Process, Server, Setup, total};
    use crate::skip;
    use crate::transfer::python;

    const PORT: u16 = 4433;
    pub(super) const V4: SocketAddr = SocketAddr::new(IpAddr::V4(SERVER), PORT);
    pub(super) const V6: SocketAddr = SocketAddr::new(IpAddr::V6(SERVER_V6), PORT);

    /// Takes long: its tests share the names of their interfaces, so they run one after the other. Each starts servers that open ports of
    /// DPDK, and some download up to 100 MB or connect a thousand clients.
    #[test]
    fn over_a_veth_pair() {
        if let Err(cause) = Network::trial() {
            return skip("dpdk", &cause);
        }
        let program = std::env::current_exe().unwrap();
        let output = Command::new("unshare")
            .arg("-n")
            .arg(program)
            .args(["--ignored", "--test-threads", "1"])
            .args([
                "dpdk::on_a_port::",
                "dpdk::beside_kernel::",
                "dpdk::hugepages::",
                "dpdk::refusals::",
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success());
        assert!(said.contains("11 passed"));
    }

    /// A server with as many workers as the device has queues, which takes all of its frames.
    pub(super) fn setup(device: &str, workers: usize) -> Setup {
        let cores: Vec<usize> = (0..workers).map(|worker| worker % 2).collect();
        let group = format!(
            "backend = \"dpdk\"\ncores = {cores:?}\n[group.dpdk]\ndevice = \"{device}\"\n\
             frames = \"all\"\naddresses = [\"{SERVER}/24\", \"{SERVER_V6}/64\"]\n"
        );
        Setup::new("dpdk")
            .replace("backend = \"dpdk\"\n", &group)
            .listener("main", &V4.to_string(), "cubic")
            .listener("six", &V6.to_string(), "cubic")
    }

    pub(super) fn start(network: &Network, setup: &Setup, folder: &Folder) -> Server {
        let mut server = network.start(setup, folder);
        server.process.line_with(&["port opened", "driver=net_af_"]);
        server
    }

    /// Both families are served, from the address that was asked.
    pub(super) fn pages(folder: &Folder) {
        run(async {
            for (from, to) in [(CLIENT.into(), V4), (CLIENT_V6.into(), V6)] {
                let client = Client::at(folder, SocketAddr::new(from, 0));
                let mut session = client.connect(to).await;
                assert_eq!(session.get("/").await.text().await, PAGE);
            }
        });
    }

    pub(super) fn download(folder: &Folder, length: u64) {
        run(async {
            let client = Client::at(folder, SocketAddr::new(CLIENT.into(), 0));
            let mut session = client.connect(V4).await;
            let mut response = session.get(&format!("/bytes/{length}")).await;
            let mut counted = Counted::default();
            response.count_to_the_end(&mut counted, length).await;
        });
    }

    /// Every binding of the NAT has another hash, so another queue gets what comes next.
    pub(super) fn nat_changes_ports(folder: &Folder) {
        run(async { crate::transfer::nat_changes_ports(V4, Client::new(folder)).await });
    }

    fn aioquic(folder: &Folder) {
        const LENGTH: u64 = 10_000_000;
        let Some(python) = python() else {
            return skip("aioquic", &"no Python has it; `make venv` makes one that does");
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aioquic_get.py");
        let output = Command::new(python)
            .arg(script)
            .arg(format!("https://localhost:{PORT}/bytes/{LENGTH}"))
            .arg(folder.path("cert.pem"))
            .args(["", &SERVER.to_string()])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = format!("200 {LENGTH} {}", generated_sha256(LENGTH));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.trim(), expected, "{errors}");
    }

    /// Returns the effective capabilities of a thread of the server.
    fn capabilities(server: &Server, thread: &str) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
        for task in tasks {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            if status.starts_with(&format!("Name:\t{thread}\n")) {
                let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
                return u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
            }
        }
        panic!("no thread {thread}");
    }

    /// Ends the server, whose port gets all buffers back. Returns all that the server said.
    pub(super) fn stop(mut server: Server) -> Vec<String> {
        let said = server.process.last_words();
        let back = |line: &String| line.contains("port closed; all buffers are back");
        assert!(said.iter().any(back), "{said:#?}");
        said
    }

    #[test]
    #[ignore = "run by over_a_veth_pair"]
    fn af_packet_serves_pages_pings_and_100_mb_on_one_queue() {
        let network = Network::new(1);
        let folder = Folder::new();
        let server = start(&network, &setup("af_packet:sga", 1), &folder);
        ping(SERVER.into());
        ping(SERVER_V6.into());
        pages(&folder);
        aioquic(&folder);
        download(&folder, 100_000_000);
        stop(server);
    }

    #[test]
    #[ignore = "run by over_a_veth_pair"]
    fn af_packet_serves_a_thousand_clients_through_nat_and_a_link_that_fails_on_four_queues() {
        let network = Network::new(4);
        let folder = Folder::new();
        let mut server = start(&network, &setup("af_packet:sga", 4), &folder);
        nat_changes_ports(&folder);
        run(async {
            let client = Arc::new(Client::at(&folder, SocketAddr::new(CLIENT.into(), 0)));
            let mut sessions = Vec::new();
            while sessions.len() < 1000 {
                let mut tasks = JoinSet::new();
                // The client's one socket has room for the replies to some hundred handshakes. The kernel drops what is more,
                // with sockets at the server's end, too.
                for _ in 0..50 {
                    let client = Arc::clone(&client);
                    tasks.spawn(async move { client.connect(V4).await });
                }
                sessions.extend(tasks.join_all().await);
            }
            // All are connected before the first asks.
            for session in &mut sessions {
                assert_eq!(session.get("/").await.text().await, PAGE);
            }
        });
        network.set_link("down");
        server.process.line_with(&["its port is down"]);
        network.set_link("up");
        pages(&folder);
        let said = stop(server);
        assert!(total(&said, "connections", "misrouted") > 0, "{said:#?}");
    }

    #[test]
    #[ignore = "run by over_a_veth_pair"]
    fn af_xdp_serves_through_nat_and_starts_again_after_it_was_killed() {
        let network = Network::new(4);
        let folder = Folder::new();
        let setup = setup("af_xdp:sga", 4);
        let mut server = start(&network, &setup, &folder);
        ping(SERVER.into());
        ping(SERVER_V6.into());
        pages(&folder);
        nat_changes_ports(&folder);
        download(&folder, 20_000_000);
        assert_eq!(capabilities(&server, "default-0"), 0);
        assert_eq!(capabilities(&server, "default-1"), 0);
        assert_ne!(capabilities(&server, "sluicegate"), 0, "the port is to be closed");
        server.process.kill();
        let server = start(&network, &setup, &folder);
        pages(&folder);
        stop(server);
        let link = network.in_the_servers("ip link show sga");
        assert!(!link.contains("xdp"), "the program is still there: {link}");
        assert!(!link.contains("PROMISC"), "{link}");
    }

    #[test]
    #[ignore = "run by over_a_veth_pair"]
    fn what_the_host_lacks_is_said_in_one_line() {
        let network = Network::new(2);
        let folder = Folder::new();
        let cases = [
            (setup("af_packet:nowhere", 1), "no network interface `nowhere`"),
            (setup("af_xdp:sga", 1), "ethtool -L sga combined 1"),
            (
                setup("af_packet:sga", 1).replace("[group.dpdk]\n", "[group.dpdk]\nmtu = 9000\n"),
                "ip link set sga mtu 9000",
            ),
            (
                setup("af_packet:sga", 1).replace(
                    "[group.dpdk]\n",
                    "[group.dpdk]\nhugepages = true\nmemory = \"64GiB\"\n",
                ),
                "sysctl vm.nr_hugepages=",
            ),
            (
                setup("af_packet:sga", 1).replace(&V4.to_string(), "192.0.2.1:443"),
                "192.0.2.1:443 is not among `dpdk.addresses`",
            ),
        ];
        for (setup, cause) in cases {
            does_not_start(&network, &setup, &folder, cause);
        }
    }

    /// A server with this configuration ends, and its last line names the cause.
    pub(super) fn does_not_start(network: &Network, setup: &Setup, folder: &Folder, cause: &str) {
        does_not_start_within(&[], network, setup, folder, cause);
    }

    /// The same for a server that is run by a command.
    pub(super) fn does_not_start_within(
        within: &[&str],
        network: &Network,
        setup: &Setup,
        folder: &Folder,
        cause: &str,
    ) {
        let file = Server::write(setup, folder);
        let holder = network.holder();
        let run = [installed::server(), "run", "-c", &file];
        let words = ["nsenter", "-t", &holder, "-n"];
        let mut process = Process::of(&[&words[..], within, &run].concat(), &folder.path(""));
        assert_eq!(process.wait().code(), Some(1), "{:#?}", process.said);
        let last = process.said.last().unwrap();
        assert!(last.contains(cause), "{last}");
        assert!(last.contains("group `default`"), "{last}");
    }
}
