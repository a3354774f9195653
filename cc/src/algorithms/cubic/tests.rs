use std::time::Duration;

use super::*;

const MTU: u64 = 1_200;
const SRTT: Duration = Duration::from_millis(100);

fn cubic() -> Cubic {
    Cubic::new(&ALGORITHM.defaults())
}

fn packets(bytes: f64) -> f64 {
    bytes / MTU as f64
}

fn credit(bytes: u64, cwnd: u64, elapsed: Duration) -> Credit {
    Credit { bytes, cwnd, mtu: MTU, elapsed, srtt: SRTT }
}

/// Returns the curve's window that long after its start, in packets.
fn window(cubic: &Cubic, elapsed: Duration) -> f64 {
    packets(cubic.curve.window(elapsed))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.001
}

#[test]
fn curve_returns_to_the_old_window_after_k_seconds() {
    let mut cubic = cubic();
    let left = cubic.cut(100 * MTU);
    assert_eq!(left, 70 * MTU);
    cubic.begin(Start::Recovery, left, MTU);
    let k = (30.0f64 / 0.4).cbrt();
    assert!(near(window(&cubic, Duration::ZERO), 70.0));
    assert!(near(window(&cubic, Duration::from_secs_f64(k)), 100.0));
    assert!(near(window(&cubic, Duration::from_secs_f64(k + 2.0)), 103.2));
}

#[test]
fn fast_convergence_lowers_the_plateau_and_not_the_cut() {
    let mut cubic = cubic();
    cubic.cut(100 * MTU);
    assert_eq!(cubic.cut(80 * MTU), 56 * MTU);
    assert!(near(packets(cubic.decrease.w_max()), 80.0 * 0.85));
    cubic.cut(200 * MTU);
    assert!(near(packets(cubic.decrease.w_max()), 200.0));
}

#[test]
fn after_slow_start_without_a_cut_the_curve_rises_at_once() {
    let mut cubic = cubic();
    cubic.cut(100 * MTU);
    cubic.begin(Start::SlowStart, 70 * MTU, MTU);
    assert!(near(window(&cubic, Duration::ZERO), 70.0));
    assert!(near(window(&cubic, Duration::from_secs(10)), 470.0));
}

#[test]
fn target_is_at_most_half_a_window_more() {
    let mut cubic = cubic();
    cubic.begin(Start::SlowStart, 70 * MTU, MTU);
    let late = credit(MTU, 70 * MTU, Duration::from_secs(1_000_000));
    assert!(near(packets(cubic.curve.target(&late)), 105.0));
    let early = credit(MTU, 80 * MTU, Duration::ZERO);
    assert!(near(packets(cubic.curve.target(&early)), 80.0));
}

#[test]
fn target_looks_one_round_trip_ahead() {
    let mut cubic = cubic();
    cubic.begin(Start::SlowStart, 70 * MTU, MTU);
    let at = credit(MTU, 70 * MTU, Duration::from_millis(2_900));
    assert!(near(packets(cubic.curve.target(&at)), 70.0 + 0.4 * 27.0));
}

#[test]
fn reno_line_rises_by_nine_seventeenths_until_the_old_window() {
    let mut cubic = cubic();
    let left = cubic.cut(10 * MTU);
    cubic.begin(Start::Recovery, left, MTU);
    cubic.reno.on_acked(&credit(7 * MTU, 7 * MTU, Duration::ZERO));
    assert!(near(packets(cubic.reno.window()), 7.0 + 9.0 / 17.0));
    for _ in 0..5 {
        cubic.reno.on_acked(&credit(7 * MTU, 7 * MTU, Duration::ZERO));
    }
    assert!(near(packets(cubic.reno.window()), 7.0 + 6.0 * 9.0 / 17.0));
    cubic.reno.on_acked(&credit(7 * MTU, 7 * MTU, Duration::ZERO));
    assert!(near(packets(cubic.reno.window()), 8.0 + 6.0 * 9.0 / 17.0));
}

#[test]
fn after_a_timeout_the_curve_is_level_and_the_reno_line_keeps_to_the_old_window() {
    let mut cubic = cubic();
    cubic.cut(100 * MTU);
    cubic.begin(Start::SlowStart, 70 * MTU, MTU);
    assert!(near(window(&cubic, Duration::ZERO), 70.0));
    assert!(near(window(&cubic, Duration::from_secs(10)), 470.0));
    cubic.reno.on_acked(&credit(70 * MTU, 70 * MTU, Duration::ZERO));
    assert!(near(packets(cubic.reno.window()), 70.0 + 9.0 / 17.0));
}

#[test]
fn after_slow_start_without_a_cut_the_reno_line_is_reno_s_own() {
    let mut cubic = cubic();
    cubic.begin(Start::SlowStart, 70 * MTU, MTU);
    cubic.reno.on_acked(&credit(70 * MTU, 70 * MTU, Duration::ZERO));
    assert!(near(packets(cubic.reno.window()), 71.0));
}

#[test]
fn reno_line_leads_on_short_paths() {
    let mut cubic = cubic();
    let mut cwnd = cubic.cut(10 * MTU);
    cubic.begin(Start::Recovery, cwnd, MTU);
    for round in 0..100 {
        let elapsed = Duration::from_millis(round);
        let credit = Credit { srtt: Duration::from_millis(1), ..credit(cwnd, cwnd, elapsed) };
        cwnd += cubic.grow(&credit);
    }
    assert!((100 * MTU..110 * MTU).contains(&cwnd), "{cwnd}");
}

#[test]
fn plateau_below_the_window_is_left_at_once() {
    let mut cubic = cubic();
    cubic.cut(10 * MTU);
    cubic.begin(Start::Recovery, 20 * MTU, MTU);
    assert!(near(window(&cubic, Duration::ZERO), 20.0));
    assert!(near(window(&cubic, Duration::from_secs(1)), 20.4));
}

#[test]
fn window_behind_both_curves_follows_the_higher_one_step_by_step() {
    let mut cubic = cubic();
    let left = cubic.cut(100 * MTU);
    cubic.begin(Start::Recovery, left, MTU);
    cubic.reno.on_acked(&credit(1_000 * MTU, 70 * MTU, Duration::ZERO));
    let behind = credit(MTU, 70 * MTU, Duration::from_secs(8));
    assert!(cubic.curve.window(behind.elapsed) > cubic.reno.window());
    assert!(cubic.grow(&behind) < MTU);
}
