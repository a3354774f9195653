//! Downloads from the server's own endpoint over one bottleneck, in virtual time.

use std::thread;
use std::time::Duration;

use sluicegate_benches::virtual_net::{Download, Outcome, Sample, Scenario, Server, run};
use sluicegate_cc::{PathChange, Registry};
use sluicegate_sim::{Aqm, Bottleneck, LossWindow, Source};

const MBIT: u64 = 1_000_000;
const DELAY: Duration = Duration::from_millis(20);
/// Initial window of ten datagrams.
const INITIAL_WINDOW: u64 = 12_000;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn endless(algorithm: &'static str) -> Download {
    Download::new(algorithm, Source::Endless)
}

/// Returns downloads for ten seconds over 20 Mbit/s and 40 ms with a queue of one bandwidth-delay product.
fn setup(downloads: Vec<Download>) -> Scenario {
    let path = Bottleneck::new(20 * MBIT, 2 * DELAY, 1.0);
    Scenario::new(Server::default(), downloads, &path, secs(10), 3)
}

/// Runs such downloads after a change to the path towards the clients.
fn transfer(downloads: Vec<Download>, change: impl FnOnce(&mut Bottleneck)) -> Vec<Outcome> {
    let mut setup = setup(downloads);
    change(&mut setup.down);
    run(&setup).expect("all ends can be set up")
}

/// Returns the megabits per second of the body.
fn rate(outcome: &Outcome) -> f64 {
    outcome.received as f64 * 8.0 / 10e6
}

fn windows(outcome: &Outcome, from: Duration, until: Duration) -> impl Iterator<Item = u64> {
    let within = move |sample: &&Sample| sample.at >= from && sample.at < until;
    outcome.trace.iter().filter(within).map(|sample| sample.cwnd)
}

/// Takes long: each algorithm fills a link of 20 Mbit/s for ten seconds of virtual time.
#[test]
fn download_fills_the_link_with_every_algorithm() {
    for algorithm in Registry::builtin().names() {
        let outcomes = transfer(vec![endless(algorithm)], |_| {});
        let rate = rate(&outcomes[0]);
        assert!((17.0..20.0).contains(&rate), "{algorithm}: {rate} Mbit/s");
        assert!(outcomes[0].inside.is_some(), "{algorithm}");
    }
}

#[test]
fn two_downloads_share_the_link() {
    let late = Download { start: secs(1), ..endless("cubic") };
    let outcomes = transfer(vec![endless("reno"), late], |_| {});
    let rates: Vec<_> = outcomes.iter().map(rate).collect();
    assert!(rates.iter().all(|rate| *rate > 2.0), "{rates:?}");
    let sum: f64 = rates.iter().sum();
    assert!((17.0..20.0).contains(&sum), "{rates:?}");
    assert!(outcomes[0].inside.is_some() && outcomes[1].inside.is_none());
}

#[test]
fn new_port_keeps_the_window_and_a_new_address_does_not() {
    let moved = |change| {
        let download = Download { path_changes: vec![(secs(5), change)], ..endless("cubic") };
        transfer(vec![download], |_| {}).remove(0)
    };
    let least = |outcome: &Outcome| windows(outcome, secs(5), secs(7)).min().expect("samples");
    let port = moved(PathChange::Port);
    let address = moved(PathChange::Address);
    assert!(least(&port) > 3 * INITIAL_WINDOW, "{}", least(&port));
    let restarted = 1..=INITIAL_WINDOW;
    assert!(restarted.contains(&least(&address)), "{}", least(&address));
    // What was on the way is lost: the body goes on when it has been sent again.
    let received_by = |ms: u64| {
        let before = port.trace.iter().rfind(|sample| sample.at < Duration::from_millis(ms));
        before.map_or(0, |sample| sample.received)
    };
    assert_eq!(received_by(5_020), received_by(5_060));
    assert!(received_by(4_980) < received_by(5_020));
    for outcome in [&port, &address] {
        assert!(rate(outcome) > 16.0, "{} Mbit/s", rate(outcome));
    }
}

#[test]
fn marks_of_the_queue_reach_the_algorithm() {
    let marked = transfer(vec![endless("cubic")], |path| {
        path.aqm = Some(Aqm::CoDel { ecn: true });
        path.queue_bytes *= 4;
    });
    let dropped = transfer(vec![endless("cubic")], |path| {
        path.aqm = Some(Aqm::CoDel { ecn: false });
        path.queue_bytes *= 4;
    });
    assert_eq!(marked[0].lost_packets, 0);
    assert!(dropped[0].lost_packets > 0);
    for outcome in [&marked[0], &dropped[0]] {
        let most = windows(outcome, secs(5), secs(10)).max().expect("samples");
        assert!((1..200_000).contains(&most), "{most}");
        assert!(rate(outcome) > 16.0, "{} Mbit/s", rate(outcome));
    }
}

/// Takes long: under random loss a rate is known only over time and seeds, so each algorithm downloads six times for ten seconds of
/// virtual time.
#[test]
fn late_turns_cost_no_more_rate_than_longer_round_trips() {
    let late = Duration::from_millis(5);
    let received = |algorithm, up_delay, turn_interval| -> u64 {
        let rounds = (1..=3).map(|seed| {
            let mut setup = setup(vec![endless(algorithm)]);
            setup.down.loss = vec![LossWindow::always(0.01)];
            setup.up.delay = up_delay;
            (setup.seed, setup.turn_interval) = (seed, turn_interval);
            run(&setup).expect("all ends can be set up")[0].received
        });
        rounds.sum()
    };
    for algorithm in Registry::builtin().names() {
        let late_turns = received(algorithm, DELAY, late);
        let longer = received(algorithm, DELAY + late, Duration::ZERO);
        let share = late_turns as f64 / longer as f64;
        assert!(share >= 0.8, "{algorithm}: {share:.2} of the rate");
    }
}

#[test]
fn data_is_served_at_its_times() {
    let source = Source::Periodic { bytes: 50_000, every: secs(1), times: 4 };
    let download = Download::new("cubic", source);
    let outcome = transfer(vec![download], |_| {}).remove(0);
    assert_eq!(outcome.received, 200_000);
    let done = outcome.completed.expect("all of it");
    assert!((secs(3)..secs(4)).contains(&done), "{done:?}");
    let before = outcome.trace.iter().rfind(|sample| sample.at < secs(3));
    assert_eq!(before.map(|sample| sample.received), Some(150_000));
}

#[test]
fn same_seed_gives_the_same_outcome() {
    let once = move || {
        let downloads = vec![endless("bbr3"), endless("cubic")];
        transfer(downloads, |path| path.jitter = Duration::from_millis(1))
    };
    let again = thread::spawn(once).join().expect("no panic");
    assert!(once() == again);
}
