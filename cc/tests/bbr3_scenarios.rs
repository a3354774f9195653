//! BBRv3 where its targets are its own; what every algorithm must do stands in `scenarios.rs`.

mod test_support;

use std::time::Duration;

use sluicegate_cc::sim::{
    Bottleneck, Flow, FlowOutcome, LossWindow, Policer, Sample, Simulation, Source,
};
use sluicegate_cc::{Model, State};
use test_support::{MBIT, MTU, alone, controller, ms, named, secs};

fn run(bottleneck: &Bottleneck, source: Source, limit: Duration, seed: u64) -> FlowOutcome {
    alone(&named("bbr3"), bottleneck, source, limit, seed)
}

fn endless(bottleneck: &Bottleneck, limit: Duration) -> FlowOutcome {
    run(bottleneck, Source::Endless, limit, 1)
}

fn mbit(outcome: &FlowOutcome, from: Duration, until: Duration) -> f64 {
    outcome.throughput(from, until) / 1e6
}

/// The slowest of stretches this long, Mbit/s.
fn slowest(outcome: &FlowOutcome, stretch: Duration, limit: Duration) -> f64 {
    let stretches = u32::try_from(limit.as_nanos() / stretch.as_nanos()).expect("few");
    (0..stretches)
        .map(|i| mbit(outcome, stretch * i, stretch * (i + 1)))
        .fold(f64::MAX, f64::min)
}

fn loss_share(outcome: &FlowOutcome) -> f64 {
    outcome.lost_packets as f64 / outcome.sent_packets as f64
}

fn model(sample: &Sample) -> Model {
    sample.snapshot.model.expect("BBR has a model")
}

fn mean_srtt(outcome: &FlowOutcome, from: Duration) -> Duration {
    let after = outcome.samples.iter().filter(|s| s.at >= from);
    let srtts: Vec<_> = after.filter_map(|s| s.srtt).collect();
    srtts.iter().sum::<Duration>() / u32::try_from(srtts.len()).expect("few")
}

#[test]
fn deep_buffer_is_filled_without_a_standing_queue() {
    let outcome = endless(&Bottleneck::new(100 * MBIT, ms(100), 2.0), secs(60));
    let rate = mbit(&outcome, ms(0), secs(60));
    let srtt = mean_srtt(&outcome, secs(2));
    println!("{rate:.1} of 100 Mbit/s, mean srtt {srtt:?}");
    assert!(rate >= 95.0);
    assert!(srtt <= ms(150));
    assert_eq!(outcome.lost_packets, 0);
}

#[test]
fn shallow_buffers_are_used_with_little_loss() {
    for (queue_bdp, least) in [(0.1, 85.0), (0.5, 95.0)] {
        let outcome = endless(&Bottleneck::new(100 * MBIT, ms(40), queue_bdp), secs(60));
        let rate = mbit(&outcome, ms(0), secs(60));
        let loss = loss_share(&outcome);
        println!(
            "queue {queue_bdp} BDP: {rate:.1} of 100 Mbit/s, {:.2} % lost",
            100.0 * loss
        );
        assert!(rate >= least, "queue {queue_bdp} BDP");
        assert!(loss <= 0.05, "queue {queue_bdp} BDP");
    }
}

#[test]
fn random_loss_below_the_threshold_costs_little() {
    for (p, least) in [(0.000_1, 95.0), (0.001, 95.0), (0.01, 80.0), (0.02, 20.0)] {
        let bottleneck = Bottleneck {
            loss: vec![LossWindow::always(p)],
            ..Bottleneck::new(100 * MBIT, ms(100), 1.0)
        };
        let outcome = endless(&bottleneck, secs(60));
        let rate = mbit(&outcome, ms(0), secs(60));
        println!("{} % lost: {rate:.1} of 100 Mbit/s", 100.0 * p);
        assert!(rate >= least, "p = {p}");
    }
}

#[test]
fn policed_flow_loses_little_once_it_knows_the_rate() {
    let policer = Some(Policer {
        bits_per_second: 10 * MBIT,
        burst_bytes: 50_000,
    });
    let bottleneck = Bottleneck {
        policer,
        ..Bottleneck::new(100 * MBIT, ms(40), 1.0)
    };
    let outcome = endless(&bottleneck, secs(60));
    let rate = mbit(&outcome, secs(10), secs(60));
    let at_ten = outcome.samples.iter().find(|s| s.at >= secs(10));
    let lost = outcome.lost_packets - at_ten.expect("sampled").lost_packets;
    let delivered = rate * 1e6 / 8.0 * 50.0 / MTU as f64;
    let loss = lost as f64 / (delivered + lost as f64);
    println!("{rate:.1} of 10 Mbit/s, {:.1} % lost", 100.0 * loss);
    assert!(rate >= 8.0 && loss <= 0.1);
}

/// The cluster: a round trip far below a scheduler's turn, and hosts that are not always there at once.
fn cluster() -> Vec<(String, Bottleneck)> {
    let clean = |queue_bdp| Bottleneck::new(1_000 * MBIT, Duration::from_micros(200), queue_bdp);
    let mut bottlenecks = Vec::new();
    for queue_bdp in [1.0, 10.0] {
        bottlenecks.push((format!("queue {queue_bdp} BDP"), clean(queue_bdp)));
        for hold in [1, 4, 10] {
            let bottleneck = Bottleneck {
                ack_hold: ms(hold),
                ..clean(queue_bdp)
            };
            bottlenecks.push((
                format!("queue {queue_bdp} BDP, ACKs held {hold} ms"),
                bottleneck,
            ));
        }
    }
    for micros in [100, 500, 3_000, 10_000] {
        let bottleneck = Bottleneck {
            jitter: Duration::from_micros(micros),
            ..clean(4.0)
        };
        bottlenecks.push((format!("jitter {micros} µs"), bottleneck));
    }
    bottlenecks
}

#[test]
fn low_rtt_never_gets_stuck_however_late_hosts_are() {
    for (name, bottleneck) in cluster() {
        let outcome = endless(&bottleneck, secs(12));
        let (rate, worst) = (
            mbit(&outcome, ms(0), secs(12)),
            slowest(&outcome, secs(1), secs(12)),
        );
        println!("{name}: {rate:.0} of 1,000 Mbit/s, slowest second {worst:.0}");
        assert!(worst >= 100.0, "{name}: {worst}");
    }
}

#[test]
fn low_rtt_with_pauses_and_loss_is_never_stuck() {
    let bursts: Vec<_> = (0..300)
        .map(|i| (ms(100 * i), 200_000 * (1 + i % 20)))
        .collect();
    let total: u64 = bursts.iter().map(|b| b.1.div_ceil(MTU) * MTU).sum();
    let loss = vec![
        LossWindow::always(0.005),
        LossWindow {
            from: secs(5),
            until: ms(5_200),
            probability: 1.0,
        },
        LossWindow {
            from: secs(12),
            until: secs(14),
            probability: 0.3,
        },
    ];
    let bottleneck = Bottleneck {
        loss,
        jitter: Duration::from_micros(150),
        ..Bottleneck::new(1_000 * MBIT, Duration::from_micros(200), 4.0)
    };
    for seed in 0..10 {
        let outcome = run(&bottleneck, Source::Bursts(bursts.clone()), secs(60), seed);
        let done = outcome.completed.expect("never stuck");
        println!("seed {seed}: done after {done:?}");
        assert_eq!(outcome.delivered, total);
        assert!(done < secs(31), "seed {seed}: {done:?}");
    }
}

#[test]
fn restart_from_idle_is_paced_at_the_rate_and_skips_probe_rtt() {
    let restart = secs(15);
    let source = Source::Bursts(vec![(ms(0), 12_000_000), (restart, 12_000_000)]);
    let outcome = run(
        &Bottleneck::new(20 * MBIT, ms(40), 1.0),
        source,
        secs(40),
        1,
    );
    let before = outcome
        .samples
        .iter()
        .rfind(|s| s.at < restart)
        .expect("sampled");
    let after: Vec<_> = outcome.samples.iter().filter(|s| s.at >= restart).collect();
    assert_eq!(before.in_flight, 0);
    let (rate, bw) = (after[1].snapshot.pacing_rate, model(before).max_bw);
    println!("rate {rate:?} after idle, model {bw}");
    assert!(rate.is_some_and(|r| r <= bw && r * 10 >= bw * 9));
    let quantum = (bw * 5 / 4 / 1_000).max(2 * MTU);
    let burst = after.iter().map(|s| s.burst).max().expect("sampled");
    assert!(burst <= quantum, "{burst} > {quantum}");
    let soon = after.iter().take_while(|s| s.at < restart + secs(2));
    assert!(soon.clone().all(|s| s.snapshot.state != State::ProbeRtt));
    let first_second = mbit(&outcome, restart + ms(80), restart + secs(1));
    println!("{first_second:.1} of 20 Mbit/s in the first second");
    assert!(first_second >= 18.0);
}

#[test]
fn flows_beside_cubic_leave_each_other_a_share() {
    let outcomes = Simulation::new(Bottleneck::new(50 * MBIT, ms(40), 1.0), 1)
        .with(Flow::new(Source::Endless), controller(&named("bbr3"), 1))
        .with(Flow::new(Source::Endless), controller(&named("cubic"), 2))
        .run(secs(120));
    let rates: Vec<_> = outcomes
        .iter()
        .map(|o| mbit(o, secs(10), secs(120)))
        .collect();
    println!("BBRv3 {:.1}, CUBIC {:.1} of 50 Mbit/s", rates[0], rates[1]);
    assert!(rates.iter().all(|r| *r >= 5.0), "{rates:?}");
}

/// The model forgets the old rate after two cycles; a queue of 400 ms must not be taken for the path meanwhile.
#[test]
fn fall_of_the_rate_is_followed_and_the_queue_drained() {
    let mut bottleneck = Bottleneck::new(10 * MBIT, ms(40), 1.0);
    bottleneck.rate = vec![(ms(0), 10 * MBIT), (secs(10), MBIT)];
    for seed in 0..10 {
        let outcome = run(&bottleneck, Source::Endless, secs(60), seed);
        let queued = |s: &&Sample| s.srtt.is_some_and(|srtt| srtt > ms(200));
        let drained = outcome.samples.iter().rfind(queued).expect("a queue").at;
        let rate = mbit(&outcome, secs(25), secs(60));
        println!("seed {seed}: no queue after {drained:?}, {rate:.2} of 1 Mbit/s");
        assert!(drained < secs(23), "seed {seed}: {drained:?}");
        assert!(mean_srtt(&outcome, secs(25)) < ms(120), "seed {seed}");
        assert!(rate >= 0.9, "seed {seed}");
    }
}
