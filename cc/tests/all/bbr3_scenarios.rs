//! BBRv3 inside a cluster, after idle time, and when the rate falls and rises; the other scenarios are those of the matrix in
//! `benches/src/matrix/`.

use std::time::Duration;

use sluicegate_cc::{Model, State, Value};
use sluicegate_sim::{Bottleneck, Flow, FlowOutcome, LossWindow, Sample, Simulation, Source};

use crate::test_support::{MBIT, MTU, alone, controller, init, ms, named, options, secs};

fn run(bottleneck: &Bottleneck, source: Source, limit: Duration, seed: u64) -> FlowOutcome {
    alone(&named("bbr3"), bottleneck, source, limit, seed)
}

fn endless(bottleneck: &Bottleneck, limit: Duration) -> FlowOutcome {
    run(bottleneck, Source::Endless, limit, 1)
}

fn mbit(outcome: &FlowOutcome, from: Duration, until: Duration) -> f64 {
    outcome.throughput(from, until) / 1e6
}

/// Returns the slowest of stretches this long, Mbit/s.
fn slowest(outcome: &FlowOutcome, stretch: Duration, limit: Duration) -> f64 {
    let stretches = u32::try_from(limit.as_nanos() / stretch.as_nanos()).expect("few");
    (0..stretches).map(|i| mbit(outcome, stretch * i, stretch * (i + 1))).fold(f64::MAX, f64::min)
}

fn model(sample: &Sample) -> Model {
    sample.snapshot.model.expect("BBR has a model")
}

fn mean_srtt(outcome: &FlowOutcome, from: Duration) -> Duration {
    let after = outcome.samples.iter().filter(|s| s.at >= from);
    let srtts: Vec<_> = after.filter_map(|s| s.srtt).collect();
    srtts.iter().sum::<Duration>() / u32::try_from(srtts.len()).expect("few")
}

/// Paths inside a cluster, each with the least rate of its slowest second, Mbit/s: a round trip far below a scheduler's
/// turn, and hosts that are late. Held ACKs make bursts that overflow a queue of 1 BDP, 20 datagrams. ProbeRTT lasts 200 ms;
/// where hosts are late by milliseconds, half of the BDP for each of these is next to nothing, and the window then grows for
/// another 100 ms.
fn cluster() -> Vec<(String, Bottleneck, f64)> {
    let clean = |queue_bdp| Bottleneck::new(1_000 * MBIT, Duration::from_micros(200), queue_bdp);
    let held = |queue_bdp, hold, least| {
        let bottleneck = Bottleneck { ack_hold: ms(hold), ..clean(queue_bdp) };
        (format!("queue {queue_bdp} BDP, ACKs held {hold} ms"), bottleneck, least)
    };
    let jittered = |micros, least| {
        let bottleneck = Bottleneck { jitter: Duration::from_micros(micros), ..clean(4.0) };
        (format!("jitter {micros} µs"), bottleneck, least)
    };
    vec![
        held(1.0, 0, 850.0),
        held(1.0, 1, 140.0),
        held(1.0, 4, 140.0),
        held(1.0, 10, 140.0),
        held(10.0, 0, 850.0),
        held(10.0, 1, 780.0),
        held(10.0, 4, 700.0),
        held(10.0, 10, 500.0),
        jittered(100, 800.0),
        jittered(500, 790.0),
        jittered(3_000, 700.0),
        jittered(10_000, 100.0),
    ]
}

#[test]
fn low_rtt_keeps_its_slowest_second_however_late_hosts_are() {
    for (name, bottleneck, least) in cluster() {
        let outcome = endless(&bottleneck, secs(12));
        let worst = slowest(&outcome, secs(1), secs(12));
        println!("{name}: slowest second {worst:.0} of 1,000 Mbit/s");
        assert!(worst >= least, "{name}: {worst}");
    }
}

#[test]
fn low_rtt_with_pauses_and_loss_is_never_stuck() {
    let bursts: Vec<_> = (0..300).map(|i| (ms(100 * i), 200_000 * (1 + i % 20))).collect();
    let total: u64 = bursts.iter().map(|b| b.1.div_ceil(MTU) * MTU).sum();
    let loss = vec![
        LossWindow::always(0.005),
        LossWindow { from: secs(5), until: ms(5_200), probability: 1.0 },
        LossWindow { from: secs(12), until: secs(14), probability: 0.3 },
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
        assert!(done < ms(30_200), "seed {seed}: {done:?}");
    }
}

#[test]
fn restart_from_idle_is_paced_at_the_rate_and_skips_probe_rtt() {
    let restart = secs(15);
    let source = Source::Bursts(vec![(ms(0), 12_000_000), (restart, 12_000_000)]);
    let outcome = run(&Bottleneck::new(20 * MBIT, ms(40), 1.0), source, secs(40), 1);
    let before = outcome.samples.iter().rfind(|s| s.at < restart).expect("sampled");
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

/// Returns when the bytes in flight became so few that they stayed so for a second.
fn drained(outcome: &FlowOutcome, from: Duration, in_flight: u64) -> Option<Duration> {
    let mut since = None;
    for sample in outcome.samples.iter().filter(|s| s.at > from) {
        if sample.in_flight > in_flight {
            since = None;
        } else if sample.at - *since.get_or_insert(sample.at) >= secs(1) {
            return since;
        }
    }
    None
}

/// The draft's filter has the old rate for two cycles, five to eleven seconds; a queue of 400 ms must not be taken for the
/// path meanwhile, also where it is many times longer than the path.
#[test]
fn queue_after_a_fall_of_the_rate_is_gone_in_three_seconds_at_any_time_of_the_cycle() {
    let at_40ms = (0..24).map(|seed| (ms(40), seed));
    let at_5ms = (0..24).map(|seed| (ms(5), seed));
    for (rtt, seed) in at_40ms.chain(at_5ms) {
        let fall = ms(10_000 + 250 * seed);
        let bottleneck = Bottleneck {
            rate: vec![(ms(0), 10 * MBIT), (fall, MBIT)],
            queue_bytes: 50_000,
            ..Bottleneck::new(10 * MBIT, rtt, 1.0)
        };
        let outcome = run(&bottleneck, Source::Endless, fall + secs(25), seed);
        let empty = 125 * u64::try_from(rtt.as_millis()).expect("short");
        let gone = drained(&outcome, fall, empty + 10_000).expect("drained") - fall;
        let rate = mbit(&outcome, fall + secs(3), fall + secs(25));
        println!("{rtt:?}, fall at {fall:?}: no queue after {gone:?}, {rate:.2} of 1 Mbit/s");
        assert!(gone < secs(3), "{rtt:?}, fall at {fall:?}: {gone:?}");
        assert!(mean_srtt(&outcome, fall + secs(5)) < ms(100), "{rtt:?}, {fall:?}");
        assert!(rate >= 0.9, "{rtt:?}, fall at {fall:?}: {rate}");
    }
}

/// A probe is due after three seconds at the latest, and doubles the rate from round to round.
#[test]
fn rate_is_back_in_the_fourth_second_after_a_fade() {
    for fade in [secs(2), secs(4), secs(10)] {
        let back = secs(10) + fade;
        let mut bottleneck = Bottleneck::new(20 * MBIT, ms(40), 4.0);
        bottleneck.rate = vec![(ms(0), 20 * MBIT), (secs(10), 2 * MBIT), (back, 20 * MBIT)];
        for seed in 0..4 {
            let outcome = run(&bottleneck, Source::Endless, back + secs(5), seed);
            let rate = mbit(&outcome, back + secs(3), back + secs(4));
            println!("fade of {fade:?}: {rate:.1} of 20 Mbit/s");
            assert!(rate >= 18.0, "fade of {fade:?}: {rate}");
        }
    }
}

/// The radio link of picoquictest/cc_compete_test.c, `cc_ns_varylink_test`, with one flow and its bound.
#[test]
fn fade_of_a_radio_link_costs_little() {
    let mut bottleneck = Bottleneck::new(10 * MBIT, ms(10), 1.5);
    bottleneck.rate = vec![(ms(0), 10 * MBIT), (secs(1), MBIT), (secs(3), 10 * MBIT)];
    for seed in 0..10 {
        let outcome = run(&bottleneck, Source::Bulk(4_000_000), secs(30), seed);
        println!("done after {:?}", outcome.completed);
        assert!(outcome.completed.is_some_and(|done| done <= secs(7)));
    }
}

/// A path that becomes longer makes no queue: its round trip does not shorten when the flow sends less.
#[test]
fn longer_path_is_no_fall_for_long() {
    let longer = Bottleneck {
        delay_steps: vec![(secs(10), ms(100))],
        ..Bottleneck::new(50 * MBIT, ms(40), 1.0)
    };
    for seed in 0..4 {
        let outcome = run(&longer, Source::Endless, secs(45), seed);
        let rate = mbit(&outcome, secs(25), secs(45));
        println!("{rate:.1} of 50 Mbit/s");
        assert!(rate >= 45.0, "{rate}");
    }
}

/// Random loss up to the tolerated share ends few probes, from windows of ten packets to hundreds. At the tolerated share the
/// bound is that of the matrix's row "loss-2".
#[test]
fn random_loss_up_to_the_tolerated_share_costs_little() {
    for packets in [10, 30, 100, 300] {
        for (loss, least) in [(0.01, 0.9), (0.02, 0.8)] {
            let rate = packets * MTU * 8 * 10;
            let bottleneck = Bottleneck {
                loss: vec![LossWindow::always(loss)],
                ..Bottleneck::new(rate, ms(100), 1.0)
            };
            for seed in 0..2 {
                let outcome = run(&bottleneck, Source::Endless, secs(60), seed);
                let share = outcome.throughput(secs(5), secs(60)) / rate as f64;
                println!("{packets} packets, {loss}: {share:.3}");
                assert!(share >= least, "{packets} packets, {loss}: {share}");
            }
        }
    }
}

/// What chance may explain must not excuse the losses of a full queue: one flow with a short queue, and ten.
#[test]
fn losses_of_short_queues_stay_few() {
    let paths = [(1, 10, 0.1), (1, 10, 0.25), (1, 100, 0.1), (10, 50, 0.25)];
    for (flows, rate, queue_bdp) in paths {
        let bottleneck = Bottleneck::new(rate * MBIT, ms(40), queue_bdp);
        let mut simulation = Simulation::new(bottleneck, 1);
        for number in 0..flows {
            let flow = Flow { start: ms(100 * number), ..Flow::new(Source::Endless) };
            simulation = simulation.with(flow, controller(&named("bbr3"), number));
        }
        let outcomes = simulation.run(secs(60));
        let lost: u64 = outcomes.iter().map(|o| o.lost_packets).sum();
        let sent: u64 = outcomes.iter().map(|o| o.sent_packets).sum();
        let share = lost as f64 / sent as f64;
        println!("{flows} flows, {rate} Mbit/s, queue {queue_bdp} BDP: {share:.4} lost");
        assert!(share <= 0.035, "{flows} flows, {rate} Mbit/s: {share}");
    }
}

/// The queue of flows on a short path stays short, whether a window makes up for late hosts or not: the bound is that of the matrix's
/// row "low-rtt-8".
#[test]
fn short_path_has_a_short_queue_also_without_host_delay() {
    let algorithm = named("bbr3");
    let path = Duration::from_micros(200);
    for millis in [0, 4] {
        let options = options(&algorithm, &[("host_delay", Value::Integer(millis))]);
        let mut simulation = Simulation::new(Bottleneck::new(1_000 * MBIT, path, 20.0), 1);
        for seed in 0..8 {
            let flow = algorithm.controller(&init(seed), &options);
            simulation = simulation.with(Flow::new(Source::Endless), flow);
        }
        let outcomes = simulation.run(secs(4));
        let srtts = outcomes.iter().map(|flow| mean_srtt(flow, secs(1)));
        let mean = srtts.sum::<Duration>() / 8;
        println!("host_delay {millis}: {mean:?}");
        assert!(mean <= 3 * path, "host_delay {millis}: {mean:?}");
    }
}
