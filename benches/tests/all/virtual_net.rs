//! The emulated network does what it says, seen from a whole connection.

use std::time::Duration;

use sluicegate_benches::virtual_net::{Control, Download, Outcome, Scenario, Server, run};
use sluicegate_sim::{Bottleneck, LossWindow, Source};

const DELAY: Duration = Duration::from_millis(20);

const LIMIT: Duration = Duration::from_secs(60);

/// Downloads from a bare connection.
fn download_within(
    limit: Duration,
    control: Control,
    source: Source,
    path: &Bottleneck,
) -> Outcome {
    let downloads = vec![Download::new(control, source)];
    let outcomes = run(&Scenario::new(Server::Bare, downloads, path, limit, 1));
    outcomes.expect("both ends can be set up").remove(0)
}

/// Downloads 2 MB.
fn download(control: Control, path: &Bottleneck) -> Outcome {
    download_within(LIMIT, control, Source::Bulk(2_000_000), path)
}

#[test]
fn download_takes_what_the_rate_takes() {
    // 2 MB at 10 Mbit/s: 1.6 s without headers and round trips.
    let down = Bottleneck {
        rate: vec![(Duration::ZERO, 10_000_000)],
        queue_bytes: 100_000,
        ..Bottleneck::unlimited(DELAY)
    };
    for control in Control::ours().chain(Control::quic()) {
        let outcome = download(control, &down);
        let time = outcome.completed.expect("done").as_secs_f64();
        assert!((1.6..2.4).contains(&time), "{control}: {time} s");
        assert_eq!(outcome.received, 2_000_000, "{control}");
    }
}

#[test]
fn without_loss_or_limit_the_window_only_grows() {
    for control in Control::ours() {
        let outcome = download(control, &Bottleneck::unlimited(DELAY));
        assert_eq!(outcome.lost_packets, 0, "{control}");
        let windows: Vec<_> = outcome.trace.iter().map(|sample| sample.cwnd).collect();
        assert!(windows.is_sorted(), "{control}: {windows:?}");
        assert!(windows.last() > windows.first(), "{control}: {windows:?}");
    }
}

#[test]
fn a_run_ends_at_its_limit() {
    let limit = Duration::from_millis(300);
    let slow =
        Bottleneck { rate: vec![(Duration::ZERO, 1_000_000)], ..Bottleneck::unlimited(DELAY) };
    let outcome = download_within(limit, Control::QuicheReno, Source::Bulk(2_000_000), &slow);
    assert_eq!(outcome.completed, None);
    assert!((1..2_000_000).contains(&outcome.received));
    assert!(outcome.trace.iter().all(|sample| sample.at <= limit));
}

/// A window is rarely a whole number of datagrams. Small packets that fill the rest come back as small ones with their
/// acknowledgements, and at a given rate of loss each costs as much as a full one.
#[test]
fn packets_stay_full_under_random_loss() {
    let lossy = Bottleneck {
        rate: vec![(Duration::ZERO, 100_000_000)],
        queue_bytes: 500_000,
        loss: vec![LossWindow::always(0.01)],
        ..Bottleneck::unlimited(DELAY)
    };
    for control in Control::ours() {
        let outcome = download(control, &lossy);
        assert_eq!(outcome.received, 2_000_000, "{control}");
        let last = outcome.trace.last().expect("something happened");
        let mean = outcome.received / last.sent_packets;
        assert!(mean > 1_050, "{control}: {mean} bytes of the body per packet");
    }
}

/// Returns the largest burst of a response to a connection that was idle for seconds after its first `start` bytes.
fn burst_after_idle(control: Control, start: u64) -> u64 {
    let restart = Duration::from_secs(15);
    let source = Source::Bursts(vec![(Duration::ZERO, start), (restart, 12_000)]);
    let path = Bottleneck {
        rate: vec![(Duration::ZERO, 10_000_000)],
        queue_bytes: 50_000,
        ..Bottleneck::unlimited(DELAY)
    };
    let outcome = download_within(LIMIT, control, source, &path);
    assert!(outcome.completed.is_some(), "{control}");
    let after = outcome.trace.iter().filter(|sample| sample.at >= restart);
    after.map(|sample| sample.burst).max().unwrap_or(0)
}

/// A path whose rate is known takes a response at that rate. Before, the initial window is what there is to go by, except for
/// scalable algorithms: their queues have room for a millisecond.
#[test]
fn response_after_idle_time_leaves_at_once_only_while_the_rate_is_not_known() {
    for control in Control::ours() {
        let unknown = burst_after_idle(control, 12_000);
        let known = burst_after_idle(control, 12_000_000);
        let paced = 1_200..=2 * 1_200;
        assert!(paced.contains(&known), "{control}: {known} bytes");
        if control.is_scalable() {
            assert!(paced.contains(&unknown), "{control}: {unknown} bytes");
        } else {
            assert!(unknown >= 10 * 1_200, "{control}: {unknown} bytes");
        }
    }
}

/// Rates measured while data ran out say nothing about the path: what comes after small responses must not be slow.
#[test]
fn small_responses_do_not_tell_the_rate_of_the_path() {
    let seconds = |s| Duration::from_secs(s);
    let mut offers: Vec<_> = (0..10).map(|second| (seconds(second), 12_000)).collect();
    offers.push((seconds(10), 5_000_000));
    for control in Control::ours() {
        let down = Bottleneck {
            rate: vec![(Duration::ZERO, 100_000_000)],
            queue_bytes: 500_000,
            ..Bottleneck::unlimited(DELAY)
        };
        let outcome = download_within(LIMIT, control, Source::Bursts(offers.clone()), &down);
        let time = outcome.completed.expect("done") - seconds(10);
        // 400 ms at the link's rate, and some round trips of 40 ms until it is reached.
        assert!(time < Duration::from_millis(900), "{control}: {time:?}");
    }
}
