//! AF_XDP beside the kernel: the server takes the datagrams to its listeners, and the kernel keeps the interface, the
//! addresses and everything else.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use super::network::{CLIENT, CLIENT_V6, Network, SERVER, SERVER_V6, ping};
use super::on_a_port::{
    V4, V6, does_not_start, download, nat_changes_ports, pages, setup, start, stop,
};
use crate::server::{Folder, Setup};
use crate::tcp::assert_serves;

/// Longer than any exchange over the veth.
const LIMIT: Duration = Duration::from_secs(10);
/// Payload that needs several fragments.
const FRAGMENTED: usize = 5000;

fn beside_kernel() -> Setup {
    setup("af_xdp:sga", 2).replace("frames = \"all\"\n", "")
}

fn network() -> Network {
    let network = Network::new(2);
    network.add_addresses();
    network
}

/// The kernel's own services on the server's addresses: ping, TCP and UDP on another port than the server's.
fn kernel_serves(network: &Network) {
    for (server, client) in
        [(IpAddr::from(SERVER), IpAddr::from(CLIENT)), (SERVER_V6.into(), CLIENT_V6.into())]
    {
        ping(server);
        let other = SocketAddr::new(server, V4.port() + 1);
        tcp(network, other);
        udp(network, other, client);
    }
}

fn tcp(network: &Network, at: SocketAddr) {
    let service = network.within(|| TcpListener::bind(at).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = service.accept().unwrap();
            let mut request = [0; 7];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(&request).unwrap();
        });
        let mut stream = TcpStream::connect_timeout(&at, LIMIT).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(b"a shell").unwrap();
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"a shell");
    });
}

fn udp(network: &Network, at: SocketAddr, client: IpAddr) {
    let service = network.within(|| UdpSocket::bind(at).unwrap());
    let client = UdpSocket::bind((client, 0)).unwrap();
    for socket in [&service, &client] {
        socket.set_read_timeout(Some(LIMIT)).unwrap();
    }
    let mut buffer = vec![0; FRAGMENTED + 1];
    for length in [4, FRAGMENTED] {
        client.send_to(&vec![7; length], at).unwrap();
        let (received, from) = service.recv_from(&mut buffer).unwrap();
        assert_eq!((received, from), (length, client.local_addr().unwrap()));
        service.send_to(&buffer[..length], from).unwrap();
        assert_eq!(client.recv_from(&mut buffer).unwrap(), (length, at));
    }
}

/// The server's own front over TCP, which the kernel carries.
fn server_serves_tcp() {
    assert_serves(V4);
    assert_serves(V6);
}

/// Fragments of a datagram to the server go to the kernel, which puts them together for nobody.
fn send_fragments() {
    for (client, server) in [(IpAddr::from(CLIENT), V4), (CLIENT_V6.into(), V6)] {
        let socket = UdpSocket::bind((client, 0)).unwrap();
        socket.send_to(&[0; FRAGMENTED], server).unwrap();
    }
}

fn has_program(network: &Network) -> bool {
    network.in_the_servers("ip link show sga").contains("xdp")
}

#[test]
#[ignore = "run by over_a_veth_pair"]
fn the_kernel_keeps_the_interface_while_the_server_serves_its_listeners() {
    let network = network();
    let folder = Folder::new();
    kernel_serves(&network);
    let server = start(&network, &beside_kernel(), &folder);
    pages(&folder);
    server_serves_tcp();
    kernel_serves(&network);
    send_fragments();
    nat_changes_ports(&folder);
    download(&folder, 20_000_000);
    kernel_serves(&network);
    pages(&folder);
    let link = network.in_the_servers("ip link show sga");
    assert!(link.contains("xdp") && !link.contains("PROMISC"), "{link}");
    let said = stop(server);
    assert!(!said.iter().any(|line| line.contains("DPDK")), "{said:#?}");
    assert!(!has_program(&network));
    kernel_serves(&network);
    // The kernel has the listeners' port again.
    tcp(&network, V4);
    udp(&network, V4, CLIENT.into());
}

#[test]
#[ignore = "run by over_a_veth_pair"]
fn the_kernel_has_all_frames_again_after_a_kill_and_the_server_starts_again() {
    let network = network();
    let folder = Folder::new();
    // The second kill is of a server that took over from a killed one.
    for _ in 0..2 {
        let mut server = start(&network, &beside_kernel(), &folder);
        pages(&folder);
        server_serves_tcp();
        server.process.kill();
        assert!(!has_program(&network));
        kernel_serves(&network);
        udp(&network, V6, CLIENT_V6.into());
    }
    let server = start(&network, &beside_kernel(), &folder);
    pages(&folder);
    kernel_serves(&network);
    stop(server);
}

#[test]
#[ignore = "run by over_a_veth_pair"]
fn what_is_in_the_way_is_said_in_one_line() {
    let network = Network::new(2);
    let folder = Folder::new();
    network.set_link("down");
    let down = "ip link set sga up";
    does_not_start(&network, &beside_kernel(), &folder, down);
    network.set_link("up");
    let addresses = "ip addr add 10.98.0.1/24 dev sga";
    does_not_start(&network, &beside_kernel(), &folder, addresses);
    network.add_addresses();
    let own = "ip addr del 10.98.0.1/24 dev sga";
    does_not_start(&network, &setup("af_xdp:sga", 2), &folder, own);
    does_not_start(&network, &setup("af_packet:sga", 2), &folder, own);
    {
        let _taken = network.within(|| UdpSocket::bind(V4).unwrap());
        does_not_start(&network, &beside_kernel(), &folder, "bind 10.98.0.1:4433");
    }
    let server = start(&network, &beside_kernel(), &folder);
    let second = Folder::new();
    let other = beside_kernel().replace(":4433", ":4434");
    let cause = "sga has one already: sluicegate";
    does_not_start(&network, &other, &second, cause);
    pages(&folder);
    stop(server);
}
