//! Careful resume of a listener, and the algorithms that it needs.

use std::time::Duration;

use super::parse;
use super::values::UNUSUAL;

fn listener(congestion_control: &str) -> String {
    format!(
        "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n\
         careful_resume = true\n{congestion_control}\n"
    )
}

#[test]
fn bounds_of_careful_resume_arrive() {
    let listeners = parse(UNUSUAL).unwrap().listeners;
    let (first, second) = (&listeners[0], &listeners[1]);
    assert!(first.careful_resume && !second.careful_resume);
    assert_eq!(first.careful_resume_lifetime, Duration::from_secs(300));
    assert_eq!((first.careful_resume_max_jump, first.careful_resume_clients), (300 << 10, 1000));
}

#[test]
fn careful_resume_needs_an_algorithm_whose_window_follows_losses() {
    let error = parse(&listener("congestion_control = \"bbr3\"")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("`careful_resume` without"), "{error}");
    for algorithms in [
        "",
        "congestion_control = \"reno\"",
        "congestion_control = \"bbr3\"\n[[listener.congestion_rule]]\ncongestion_control = \"cubic\"",
    ] {
        assert!(parse(&listener(algorithms)).is_ok(), "{algorithms}");
    }
}
