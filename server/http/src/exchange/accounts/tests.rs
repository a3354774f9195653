use std::net::IpAddr;

use sluicegate_base::address::ValidatedAddress;

use super::*;

fn address(last: u8) -> ValidatedAddress {
    IpAddr::from([192, 0, 2, last]).into()
}

#[test]
fn fronts_that_share_accounts_share_the_bounds() {
    let accounts = Accounts::new(1000, 6000);
    let other = Arc::clone(&accounts);
    let one = [accounts.admit(address(1)), other.admit(address(1)), accounts.admit(address(1))];
    assert!(one.iter().all(Option::is_some));
    assert!(other.admit(address(1)).is_none());
    assert!(other.admit(address(2)).is_none());
    let totals = accounts.totals();
    assert_eq!((totals.promised, totals.refused_memory), (6000, 2));
    drop(one);
    assert_eq!(accounts.totals().promised, 0);
    assert!(accounts.admit(address(1)).is_some());
}

#[test]
fn one_exchange_is_possible_however_small_the_memory() {
    let accounts = Accounts::new(1000, 0);
    let first = accounts.admit(address(1));
    assert!(first.is_some() && accounts.admit(address(2)).is_none());
    assert_eq!(accounts.totals().refused_memory, 1);
}

#[test]
fn the_client_that_holds_the_most_gives_way_until_all_hold_the_same() {
    let accounts = Accounts::new(1000, 12_000);
    let client = |last| ClientPrefix::from(address(last));
    let mut greedy: Vec<_> = (0..6).filter_map(|_| accounts.admit(address(1))).collect();
    let mut modest = Vec::new();
    while let Some(most) = accounts.largest_holder(client(2)) {
        assert!(most == client(1) && accounts.promise(client(2)).is_none());
        greedy.pop().unwrap().revoke();
        modest.extend(accounts.promise(client(2)));
    }
    assert_eq!((greedy.len(), modest.len()), (3, 3));
    assert_eq!(accounts.largest_holder(client(1)), None);
    assert!(accounts.admit(address(2)).is_none());
    assert_eq!(accounts.totals().refused_client, 1);
    // A third one gets its part, too.
    assert!(accounts.largest_holder(client(3)).is_some());
}

#[test]
fn refusals_of_the_client_that_holds_the_most_keep_no_newcomer_out() {
    let client = |last| ClientPrefix::from(address(last));
    for by_number in [false, true] {
        // Room for 210 exchanges: 200 clients with one each, and one client with 10.
        let room_for = |exchanges| {
            if by_number {
                Accounts::with_limit(1000, u64::MAX, exchanges)
            } else {
                Accounts::new(1000, exchanges * 2000)
            }
        };
        let accounts = room_for(210);
        let mut greedy: Vec<_> = (0..10).filter_map(|_| accounts.admit(address(250))).collect();
        let modest: Vec<_> = (0..200).filter_map(|n| accounts.admit(address(n))).collect();
        assert_eq!((greedy.len(), modest.len()), (10, 200));
        let mut others = Vec::new();
        for _ in 0..4 {
            assert_eq!(accounts.largest_holder(client(250)), None);
            assert_eq!(accounts.largest_holder(client(251)), Some(client(250)));
            greedy.pop().unwrap().revoke();
            others.extend(accounts.promise(client(252)));
        }
        assert_eq!((greedy.len(), others.len()), (6, 4));
        // All hold the same, so that nobody gives way to a newcomer, until one client has more.
        let equal = room_for(200);
        let mut held: Vec<_> = (0..200).filter_map(|n| equal.admit(address(n))).collect();
        assert_eq!(equal.largest_holder(client(251)), None);
        held.truncate(190);
        held.extend((0..10).filter_map(|_| equal.admit(address(1))));
        assert_eq!(equal.largest_holder(client(251)), Some(client(1)));
    }
}

#[test]
fn the_number_of_exchanges_is_shared_like_memory() {
    let accounts = Accounts::with_limit(128 << 10, u64::MAX, 4);
    let client = |last| ClientPrefix::from(address(last));
    let mut greedy: Vec<_> = (0..6).filter_map(|_| accounts.admit(address(1))).collect();
    assert_eq!(greedy.len(), 4);
    assert_eq!(accounts.totals().refused_memory, 2);
    // One exchange has more memory than three.
    let mut modest = Vec::new();
    for _ in 0..2 {
        assert_eq!(accounts.largest_holder(client(2)), Some(client(1)));
        greedy[modest.len()].revoke();
        let mut permit = accounts.admit(address(2)).unwrap();
        permit.grow(Direction::Response);
        modest.push(permit);
    }
    assert_eq!(accounts.largest_holder(client(2)), None);
    assert!(accounts.admit(address(2)).is_none());
    drop((greedy, modest));
    assert_eq!(accounts.totals().promised, 0);
    let all: Vec<_> = (0..6).filter_map(|_| accounts.admit(address(3))).collect();
    assert_eq!(all.len(), 4);
}

#[test]
fn a_direction_that_moves_gets_its_share_while_half_of_the_memory_is_free() {
    let share = 128 << 10;
    let accounts = Accounts::new(share, 2 * (64 << 10) + 2 * (96 << 10));
    let mut permit = accounts.admit(address(1)).unwrap();
    assert_eq!(accounts.totals().promised, 64 << 10);
    assert_eq!(permit.grow(Direction::Response), share - (32 << 10));
    assert!(permit.has_grown());
    for direction in [Direction::Response, Direction::Request] {
        assert_eq!(permit.grow(direction), 0);
    }
    assert_eq!(accounts.totals().promised, 160 << 10);
    let other = accounts.admit(address(2)).unwrap();
    drop(permit);
    assert_eq!(accounts.totals().promised, 64 << 10);
    drop(other);
    assert_eq!(accounts.totals().promised, 0);
}

#[test]
fn ten_thousand_small_requests_of_one_client_fit_into_the_default_memory() {
    let limits = sluicegate_config::Config::embedded().limits;
    let accounts = Accounts::new(limits.stream_buffer, limits.worker_buffer);
    let permits: Vec<_> = (0..10_000).map(|_| accounts.admit(address(1))).collect();
    assert!(permits.iter().all(Option::is_some));
}
