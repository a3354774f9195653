use super::*;

fn choice(algorithm: &'static str) -> Choice {
    let registry = Registry::builtin();
    let cubic = *registry.find("cubic").unwrap();
    Choice {
        algorithm,
        model_based: registry.find(algorithm).is_some_and(|a| a.model_based),
        scalable: registry.find(algorithm).is_some_and(|a| a.scalable),
        factory: quiche::cc::Factory::new(cubic, cubic.defaults()),
    }
}

fn rule(networks: &[&str], share: f64, algorithm: &'static str) -> SelectionRule {
    SelectionRule {
        networks: {
            let networks: Vec<IpNet> = networks.iter().map(|n| n.parse().unwrap()).collect();
            Networks::new(&networks)
        },
        share,
        choice: choice(algorithm),
    }
}

fn chosen(selection: &mut Selection, peer: &str, now: Instant) -> (&'static str, bool) {
    let (choice, guarded) = selection.choose(peer.parse().unwrap(), now);
    (choice.algorithm, guarded)
}

#[test]
fn the_first_rule_that_fits_decides() {
    let rules = vec![
        rule(&["10.1.0.0/16"], 1.0, "narrow"),
        rule(&["10.0.0.0/8", "fd00::/8"], 1.0, "wide"),
        rule(&["10.2.0.0/16"], 1.0, "never reached"),
    ];
    let mut selection = Selection::new(rules, choice("own"), None);
    let now = sluicegate_base::clock::now();
    for (peer, expected) in [
        ("10.1.2.3", "narrow"),
        ("10.2.2.3", "wide"),
        ("::ffff:10.1.2.3", "narrow"),
        ("fd00::1", "wide"),
        ("192.0.2.1", "own"),
        ("2001:db8::1", "own"),
    ] {
        assert_eq!(chosen(&mut selection, peer, now), (expected, false), "{peer}");
    }
}

#[test]
fn shares_divide_the_clients() {
    const CLIENTS: u32 = 100_000;
    let rules = vec![
        rule(&["0.0.0.0/0"], 0.0, "none"),
        rule(&["0.0.0.0/0"], 0.1, "tenth"),
        rule(&["0.0.0.0/0"], 0.5, "half of the rest"),
    ];
    let mut selection = Selection::new(rules, choice("own"), None);
    let now = sluicegate_base::clock::now();
    let mut counts = HashMap::new();
    for client in 0..CLIENTS {
        let (choice, _) = selection.choose(IpAddr::from(Ipv4Addr::from_bits(client)).into(), now);
        *counts.entry(choice.algorithm).or_insert(0_u32) += 1;
    }
    // Ten standard deviations of the binomial distribution, and more.
    let about = |name: &str, share: u32| {
        let (count, expected) = (counts[name], CLIENTS / 100 * share);
        assert!(count.abs_diff(expected) < 2000, "{name}: {count}");
    };
    assert!(!counts.contains_key("none"));
    about("tenth", 10);
    about("half of the rest", 45);
    about("own", 45);
}

#[test]
fn client_gets_the_same_algorithm_for_all_its_connections() {
    let rules = vec![rule(&["0.0.0.0/0", "::/0"], 0.5, "half")];
    let mut selection = Selection::new(rules, choice("own"), None);
    let now = sluicegate_base::clock::now();
    for client in 0..100 {
        let v4 = format!("192.0.2.{client}");
        let mapped = format!("::ffff:{v4}");
        let expected = chosen(&mut selection, &v4, now);
        assert_eq!(chosen(&mut selection, &v4, now), expected);
        assert_eq!(chosen(&mut selection, &mapped, now), expected);
        // A customer's addresses of IPv6 change within a /56.
        let of = |host: &str| format!("2001:db8:{client:x}:1{host}");
        let expected = chosen(&mut selection, &of("00::1"), now);
        assert_eq!(chosen(&mut selection, &of("ff:1:2:3:4"), now), expected);
    }
    // Another key draws others.
    let mut other = Selection { draw_key: [1; 32], ..selection.clone() };
    let differs = (0..100).any(|client| {
        let address = format!("192.0.2.{client}");
        chosen(&mut selection, &address, now) != chosen(&mut other, &address, now)
    });
    assert!(differs);
}

#[test]
fn the_guard_overrules_bbr3_in_a_measured_network_for_a_while() {
    let guard = Guard::new(Duration::from_millis(1), choice("cubic"));
    let rules = vec![rule(&["10.9.0.0/16"], 1.0, "reno")];
    let mut selection = Selection::new(rules, choice("bbr3"), Some(guard));
    let start = sluicegate_base::clock::now();
    assert_eq!(chosen(&mut selection, "10.0.0.1", start), ("bbr3", false));
    let (peer, neighbour) = ("10.0.0.1".parse().unwrap(), "10.0.0.200");
    let learn = |selection: &mut Selection, micros, at| {
        selection.learn(peer, Duration::from_micros(micros), at)
    };
    assert_eq!(learn(&mut selection, 1000, start), None);
    assert_eq!(chosen(&mut selection, neighbour, start), ("bbr3", false));
    let network = Some("10.0.0.0/24".parse().unwrap());
    assert_eq!(learn(&mut selection, 999, start), network);
    assert_eq!(learn(&mut selection, 200, start), None, "said once");
    assert_eq!(chosen(&mut selection, neighbour, start), ("cubic", true));
    assert_eq!(chosen(&mut selection, "10.0.1.1", start), ("bbr3", false));
    let later = start + MEMORY;
    assert_eq!(chosen(&mut selection, neighbour, later), ("bbr3", false));
    assert_eq!(learn(&mut selection, 200, later), network, "said again");
    // Another algorithm needs no guard.
    let other = "10.9.0.1".parse().unwrap();
    selection.learn(other, Duration::from_micros(10), start);
    assert_eq!(chosen(&mut selection, "10.9.0.1", start), ("reno", false));
}

#[test]
fn guarded_network_gets_the_operators_own_choice_before_a_default() {
    let registry = Registry::builtin();
    let instead = |own: &Choice, rules: &[SelectionRule]| unguarded(own, rules, &registry).unwrap();
    let same = |a: &Choice, b: &Choice| a.factory == b.factory;
    let (own, bbr3) = (choice("cubic"), choice("bbr3"));
    assert!(same(&instead(&own, &[]), &own), "the listener's own");
    let rules =
        [rule(&["10.0.0.0/8"], 1.0, "bbr3"), rule(&[], 0.5, "reno"), rule(&[], 1.0, "cubic")];
    assert!(same(&instead(&bbr3, &rules), &rules[1].choice));
    assert_eq!(instead(&bbr3, &[]).algorithm, "cubic", "the default");
    // Prague is only for the networks that it was chosen for.
    let l4s = [rule(&["10.0.0.0/8"], 0.05, "prague")];
    assert_eq!(instead(&bbr3, &l4s).algorithm, "cubic");
}

#[test]
fn the_guard_forgets_the_oldest_networks() {
    let mut guard = Guard::new(Duration::from_millis(1), choice("cubic"));
    let now = sluicegate_base::clock::now();
    let address = |n: usize| IpAddr::from(Ipv4Addr::from_bits(u32::try_from(n << 8).unwrap()));
    for n in 0..=MAX_NETWORKS {
        guard.learn(address(n), Duration::ZERO, now);
    }
    assert_eq!((guard.networks.len(), guard.order.len()), (MAX_NETWORKS, MAX_NETWORKS));
    assert!(!guard.remembers(address(0), now));
    assert!(guard.remembers(address(1), now) && guard.remembers(address(MAX_NETWORKS), now));
}
