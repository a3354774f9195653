use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);
/// Retry packets a second that the worker may send.
const RETRIES: u64 = 50_000;

/// A worker and the kernel in front of it.
struct Bench {
    control: InitialControl,
    now: Instant,
    /// Initials a second that the worker has time to read.
    reads: u64,
    /// Initials that arrived, in all.
    arrived: u64,
    changes: Vec<Change>,
}

impl Bench {
    fn new() -> Bench {
        let now = sluicegate_base::clock::now();
        Bench {
            control: InitialControl::new(RETRIES, now),
            now,
            reads: u64::MAX,
            arrived: 0,
            changes: Vec::new(),
        }
    }

    fn share(&self, sender: Sender) -> f64 {
        let InitialShares { known, unknown } = self.control.shares();
        let share = match sender {
            Sender::Known => known,
            Sender::Unknown => unknown,
        };
        f64::from(share) / f64::from(ALL)
    }

    /// Lets clients send `rate` Initials a second for so many milliseconds, evenly.
    fn send(&mut self, sender: Sender, rate: u64, millis: u64) {
        self.send_both((sender, rate), None, millis);
    }

    /// As [`Bench::send`], and others beside them.
    fn send_both(&mut self, one: (Sender, u64), other: Option<(Sender, u64)>, millis: u64) {
        for _ in 0..millis {
            for (sender, rate) in [Some(one), other].into_iter().flatten() {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "it is small and positive"
                )]
                let passed = (rate as f64 / 1000.0 * self.share(sender)).round() as u64;
                let arrived = passed.min(self.reads / 1000);
                self.arrived += arrived;
                for number in 0..arrived {
                    self.control.on_initial(sender, number < RETRIES / 1000);
                }
            }
            self.now += MILLISECOND;
            self.changes.extend(self.control.end_window(self.now));
        }
    }

    /// Returns the Initials a second that arrive while clients send `rate`, once the share has settled.
    fn settled(&mut self, rate: u64) -> u64 {
        self.send(Sender::Unknown, rate, 1000);
        let before = self.arrived;
        self.send(Sender::Unknown, rate, 1000);
        self.arrived - before
    }

    fn is_all_passing(&self) -> bool {
        self.control.shares() == InitialShares::default()
    }
}

#[test]
fn a_quarter_more_than_the_worker_answers_arrives_in_a_flood_of_any_rate() {
    for rate in [100_000, 200_000, 1_000_000, 3_000_000] {
        let mut bench = Bench::new();
        let arrives = bench.settled(rate);
        assert!((54_000..=72_000).contains(&arrives), "{arrives} of {rate}");
        assert_eq!(bench.changes[0], Change::Begins(rate));
        assert!(!bench.changes.contains(&Change::Ends));
    }
}

#[test]
fn worker_that_cannot_read_a_whole_flood_finds_its_rate_all_the_same() {
    for reads in [70_000, 110_000, 300_000] {
        let mut bench = Bench::new();
        bench.reads = reads;
        let arrives = bench.settled(3_000_000);
        assert!((54_000..=72_000).contains(&arrives), "{arrives}");
    }
}

#[test]
fn share_falls_within_a_third_of_a_second_and_all_pass_soon_after_the_flood() {
    let mut bench = Bench::new();
    bench.send(Sender::Unknown, 1_000_000, 300);
    assert!(bench.share(Sender::Unknown) < 0.15);
    bench.send(Sender::Unknown, 1_000_000, 10_000);
    bench.send(Sender::Unknown, 100, 500);
    assert!(bench.is_all_passing());
    bench.send(Sender::Unknown, 100, 700);
    assert_eq!(bench.changes.last(), Some(&Change::Ends));
    assert_eq!(bench.control.deadline(), None);
}

/// Nothing but the flood kept the worker awake.
#[test]
fn flood_that_stops_at_once_ends_by_the_deadline() {
    let mut bench = Bench::new();
    assert_eq!(bench.control.deadline(), None);
    bench.send(Sender::Unknown, 5_000_000, 2000);
    let mut windows = 0;
    while let Some(at) = bench.control.deadline() {
        bench.now = at;
        bench.changes.extend(bench.control.end_window(at));
        windows += 1;
    }
    assert_eq!(windows, u32::from(CALM));
    assert_eq!(bench.changes.last(), Some(&Change::Ends));
    assert!(bench.is_all_passing());
}

#[test]
fn crowd_of_honest_clients_never_meets_a_share() {
    // Most are answered, then none are at a lower rate, then there are bursts.
    let mut bench = Bench::new();
    bench.send(Sender::Unknown, 60_000, 5000);
    bench.send(Sender::Known, 60_000, 5000);
    for _ in 0..TOLERATED / 10 - 1 {
        bench.control.on_initial(Sender::Unknown, false);
    }
    bench.now += WINDOW;
    assert_eq!(bench.control.end_window(bench.now), None);
    for _ in 0..20 {
        for _ in 0..10_000 {
            bench.control.on_initial(Sender::Unknown, false);
        }
        bench.send(Sender::Unknown, 0, 200);
    }
    assert_eq!(bench.changes, []);
    assert!(bench.is_all_passing());
}

#[test]
fn steady_flood_changes_the_share_once_and_one_near_the_limit_does_not_flap() {
    for rate in [70_000, 120_000, 1_000_000] {
        let mut bench = Bench::new();
        bench.send(Sender::Unknown, rate, 20_000);
        assert!(bench.changes.len() <= 3, "{:?}", bench.changes);
    }
    // It swings about the limit, faster and slower than the windows.
    for millis in [7, 50, 100, 300, 700] {
        let mut bench = Bench::new();
        for _ in 0..20_000 / millis {
            bench.send(Sender::Unknown, 100_000, millis);
            bench.send(Sender::Unknown, 45_000, millis);
        }
        let ends = bench.changes.iter().filter(|c| **c == Change::Ends);
        assert_eq!(ends.count(), 0, "{millis} ms: {:?}", bench.changes);
    }
}

#[test]
fn who_has_received_a_connection_id_passes_while_others_flood() {
    let mut bench = Bench::new();
    let (flood, honest) = ((Sender::Unknown, 1_000_000), (Sender::Known, 5000));
    bench.send_both(flood, Some(honest), 5000);
    assert!(bench.share(Sender::Unknown) < 0.15);
    assert_eq!(bench.control.shares().known, ALL);
}

#[test]
fn flood_to_connection_ids_of_ours_is_bounded_too() {
    let mut bench = Bench::new();
    bench.send(Sender::Known, 1_000_000, 5000);
    assert!(bench.share(Sender::Known) < 0.15);
    assert_eq!(bench.control.shares().unknown, ALL);
}

/// It hides in batches of GRO, behind other packets.
#[test]
fn flood_that_the_filter_does_not_see_leaves_new_clients_a_share() {
    let mut bench = Bench::new();
    for _ in 0..50 {
        for _ in 0..100_000 {
            bench.control.on_initial(Sender::Unknown, false);
        }
        bench.now += WINDOW;
        bench.control.end_window(bench.now);
    }
    assert_eq!(bench.control.shares().unknown, ALL / 64);
}

/// A worker that refuses everybody sends few refusals.
#[test]
fn worker_that_answers_hardly_any_still_reads_half_of_the_tolerated_rate() {
    let mut bench = Bench::new();
    for _ in 0..50 {
        let arrived = 100_000.0 * bench.share(Sender::Unknown);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is small and positive"
        )]
        for number in 0..arrived as u64 {
            bench.control.on_initial(Sender::Unknown, number == 0);
        }
        bench.now += WINDOW;
        bench.control.end_window(bench.now);
    }
    let arrives = 1_000_000.0 * bench.share(Sender::Unknown);
    assert!((22_000.0..=29_000.0).contains(&arrives), "{arrives}");
}

#[test]
fn high_limit_of_retries_leaves_all_to_the_worker() {
    let mut bench = Bench::new();
    bench.control = InitialControl::new(10_000_000, bench.now);
    bench.send(Sender::Unknown, 2_000_000, 2000);
    assert_eq!(bench.changes, []);
}

#[test]
fn control_of_a_backend_without_a_filter_changes_nothing() {
    let mut bench = Bench::new();
    bench.control.disable();
    bench.send(Sender::Unknown, 1_000_000, 2000);
    assert_eq!(bench.changes, []);
    assert!(bench.is_all_passing());
    assert_eq!(bench.control.deadline(), None);
}
