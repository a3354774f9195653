//! The table of the suite: which world a case leaves out, and why. A case that has no row runs in all of them.

use crate::rig::{Kind, Role};

/// A group of worlds that a case leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// Drivers in memory.
    Memory,
    /// The simulated port.
    Simulated,
    /// Drivers of sockets.
    Sockets,
    /// `io_uring` that copies no message.
    WithoutCopies,
    /// All devices of DPDK.
    Dpdk,
    /// All devices of DPDK, where the driver under test is at the server's end.
    DpdkAsServer,
    /// All of them, where it is at the client's end.
    DpdkAsClient,
    /// AF_XDP of DPDK.
    AfXdp,
    /// AF_XDP of DPDK, with the kernel at the same interface.
    BesideKernel,
}

use LeftOut::{
    AfXdp, BesideKernel, Dpdk, DpdkAsClient, DpdkAsServer, Memory, Simulated, Sockets,
    WithoutCopies,
};

/// Cases, the worlds that they leave out, and the reason.
type Row = (&'static str, &'static [LeftOut], &'static str);

const TABLE: &[Row] = &[
    (
        "flow::many_peers_are_told_apart",
        &[DpdkAsClient],
        "a device has one port, so the peers are at the other end",
    ),
    (
        "flow::a_flooded_listener_does_not_hide_another",
        &[Memory, Simulated, Dpdk],
        "one queue carries the datagrams of all listeners in the order in which they arrive",
    ),
    (
        "flow::a_flood_that_fills_every_buffer_delays_another_listener_by_one_batch",
        &[Memory, Simulated, Dpdk],
        "one queue carries the datagrams of all listeners in the order in which they arrive",
    ),
    (
        "initials::initials_pass_by_their_share_and_all_other_packets_pass",
        &[Memory, Simulated, Dpdk],
        "the driver drops nothing in advance",
    ),
    (
        "initials::every_listener_of_a_driver_has_the_filter",
        &[Memory, Simulated, Dpdk],
        "the driver drops nothing in advance",
    ),
    (
        "initials::a_batch_passes_or_is_dropped_by_its_first_datagram",
        &[Memory, Simulated, Dpdk],
        "the driver drops nothing in advance",
    ),
    (
        "initials::a_driver_without_sockets_has_no_filter",
        &[Sockets, DpdkAsClient],
        "the kernel drops packets in front of a socket, and the driver under test is the one that receives",
    ),
    (
        "take_over::what_the_kernel_drops_counts_once_whichever_process_reads",
        &[Memory, Simulated, Dpdk],
        "a queue has no socket that another process could take over",
    ),
    (
        "take_over::no_socket_gets_a_datagram_before_somebody_is_to_read_it",
        &[Memory, Simulated, Dpdk],
        "a queue has no socket that another process could take over",
    ),
    (
        "rebind::a_listener_that_is_added_receives_and_sends_beside_the_others",
        &[Memory, Simulated, Dpdk],
        "a device keeps its listeners as long as it is open",
    ),
    (
        "rebind::a_listener_that_is_removed_frees_its_port",
        &[Memory, Simulated, Dpdk],
        "a device keeps its listeners as long as it is open",
    ),
    (
        "link::room_is_no_longer_than_what_the_link_carries",
        &[Sockets, DpdkAsServer],
        "the kernel refuses what is too big, and the driver under test is the one that sends",
    ),
    (
        "link::a_frame_without_the_vlan_is_dropped_and_counted",
        &[Sockets, DpdkAsClient],
        "the kernel has the VLAN, and the driver under test is the one that receives",
    ),
    (
        "link::fragments_are_dropped_and_counted",
        &[Sockets, DpdkAsClient],
        "the kernel puts fragments together, and the driver under test is the one that receives",
    ),
    (
        "link::a_source_port_of_zero_is_dropped_and_counted",
        &[DpdkAsClient],
        "the driver under test is the one that receives",
    ),
    (
        "link::a_datagram_to_a_port_without_a_listener_is_dropped_and_counted",
        &[Sockets, DpdkAsClient],
        "the kernel refuses it, and the driver under test is the one that receives",
    ),
    ("link::datagrams_pass_in_a_vlan", &[Sockets], "the kernel has the VLAN"),
    ("link::jumbo_frames_pass", &[AfXdp], "a frame of AF_XDP lies in a page"),
    ("link::jumbo_frames_pass_in_a_vlan", &[AfXdp, Sockets], "a frame of AF_XDP lies in a page"),
    (
        "link::a_datagram_to_a_port_without_a_listener_is_dropped_and_counted",
        &[BesideKernel],
        "the kernel gets it",
    ),
    ("link::fragments_are_dropped_and_counted", &[BesideKernel], "the kernel gets them"),
    (
        "link::a_frame_without_the_vlan_is_dropped_and_counted",
        &[BesideKernel],
        "the kernel gets it",
    ),
    (
        "namespace::a_full_socket_blocks_its_listener_and_loses_nothing",
        &[Memory, Simulated],
        "no kernel keeps what waits for the link",
    ),
    (
        "namespace::buffers_that_the_device_has_not_sent_are_not_written_to",
        &[Memory, Simulated],
        "no kernel keeps what waits for the link",
    ),
    (
        "namespace::a_datagram_too_big_for_its_interface_is_reported_once_a_batch",
        &[WithoutCopies],
        "what waits for a neighbor that does not exist keeps its buffer, which a driver that is dropped leaks on purpose",
    ),
    (
        "namespace::an_interface_may_go_down_and_come_back",
        &[WithoutCopies],
        "what waits for a neighbor that does not exist keeps its buffer, which a driver that is dropped leaks on purpose",
    ),
    (
        "namespace::a_full_socket_does_not_stop_another_listener",
        &[WithoutCopies],
        "batches wait in buffers of the driver: namespace::buffers_that_the_device_has_not_sent_are_not_written_to",
    ),
    (
        "namespace::a_full_socket_does_not_stop_another_listener",
        &[Memory, Simulated],
        "no kernel keeps what waits for the link",
    ),
    (
        "namespace::an_unreachable_peer_is_reported_and_does_not_hold_up_others",
        &[Memory, Simulated],
        "the test's own network has no routes",
    ),
    (
        "namespace::a_source_port_of_zero_is_dropped_and_counted",
        &[Memory, Simulated],
        "nobody forges datagrams in the test's own network",
    ),
    (
        "namespace::a_datagram_too_big_for_its_interface_is_reported_once_a_batch",
        &[Memory, Simulated],
        "room for a datagram is never longer than what the link carries",
    ),
    (
        "namespace::an_interface_may_go_down_and_come_back",
        &[Memory, Simulated],
        "nothing simulates an interface of the kernel",
    ),
    (
        "namespace::forged_icmp_errors_fail_no_send_and_take_no_room",
        &[Memory, Simulated],
        "nobody forges datagrams in the test's own network",
    ),
    (
        "sharing::a_connection_id_finds_its_worker",
        &[Memory, Simulated, Dpdk],
        "a hash that knows no connection IDs selects the queue: the worker hands misrouted datagrams over",
    ),
    (
        "sharing::without_a_worker_in_the_connection_id_a_client_finds_one_worker",
        &[Memory, Simulated, Dpdk],
        "the kernel selects no worker for these drivers",
    ),
    (
        "sharing::a_port_is_free_again_after_the_driver_is_gone",
        &[AfXdp],
        "the library keeps the socket of a device until the process ends",
    ),
    (
        "sharing::workers_share_the_datagrams_of_a_port",
        &[Memory],
        "a driver in memory has no group",
    ),
    (
        "sharing::workers_share_the_datagrams_of_a_port",
        &[DpdkAsClient],
        "a device has one port, so the clients are at the other end",
    ),
    (
        "sleep::no_wake_up_is_lost_between_threads",
        &[Memory],
        "nothing sleeps in memory, where time is virtual",
    ),
    (
        "sleep::a_datagram_ends_the_sleep",
        &[Memory],
        "nothing sleeps in memory, where time is virtual",
    ),
    (
        "sleep::a_deadline_is_never_early",
        &[Memory],
        "nothing sleeps in memory, where time is virtual",
    ),
    (
        "sleep::an_old_deadline_does_not_shorten_a_later_sleep",
        &[Memory],
        "nothing sleeps in memory, where time is virtual",
    ),
    (
        "trouble::a_datagram_too_big_for_the_path_is_reported_and_costs_neither_socket_nor_gso",
        &[Memory, Simulated, Dpdk],
        "room for a datagram is never longer than what the link carries",
    ),
    (
        "trouble::without_gso_and_gro_everything_still_arrives",
        &[Memory, Simulated, Dpdk],
        "the driver neither has nor uses them",
    ),
    (
        "trouble::features_name_the_offloads_in_use",
        &[Memory, Simulated, Dpdk],
        "the driver has no offloads of sockets",
    ),
    (
        "trouble::a_receive_overflow_is_counted_and_reported",
        &[Dpdk],
        "the library's drivers of AF_PACKET and AF_XDP do not count what their rings had no room for",
    ),
    (
        "trouble::a_driver_dropped_under_fire_leaves_memory_alone",
        &[Memory, Simulated, DpdkAsClient],
        "no kernel writes to the buffers of such a driver, or at its end of the link",
    ),
    (
        "trouble::a_link_that_goes_down_is_reported_for_each_listener_and_comes_back",
        &[Memory, Sockets, Dpdk],
        "nothing simulates the link: link::an_interface_may_go_down_and_come_back is the case for real ones",
    ),
    (
        "trouble::a_timed_departure_is_not_early",
        &[Memory, Sockets, Dpdk],
        "the backend has no timed queue and sends at once",
    ),
    (
        "trouble::exhausted_buffers_block_until_some_come_back",
        &[Memory, Sockets, Dpdk],
        "the link takes every frame at once, so that no buffer stays in use",
    ),
];

/// Returns the reason for which a case leaves a driver in its part out.
pub(crate) fn reason(case: &str, kind: Kind, role: Role) -> Option<&'static str> {
    let of_case = TABLE.iter().filter(|(name, ..)| *name == case);
    let mut found =
        of_case.filter(|(_, left_out, _)| left_out.iter().any(|group| group.has(kind, role)));
    found.next().map(|(.., reason)| *reason)
}

impl LeftOut {
    fn has(self, kind: Kind, role: Role) -> bool {
        match self {
            Memory => kind == Kind::Memory,
            Simulated => kind == Kind::Port,
            Sockets => kind.backend().is_some(),
            WithoutCopies => kind == Kind::ZeroCopy,
            Dpdk => kind.is_dpdk(),
            DpdkAsServer => kind.is_dpdk() && role == Role::Server,
            DpdkAsClient => kind.is_dpdk() && role == Role::Client,
            AfXdp => kind.is_af_xdp(),
            BesideKernel => kind == Kind::AfXdpBesideKernel,
        }
    }
}

#[test]
fn every_row_of_the_table_names_a_case() {
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new(program).arg("--list").output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    let cases: Vec<_> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    for (case, ..) in TABLE {
        assert!(cases.contains(case), "there is no case {case}");
    }
}
