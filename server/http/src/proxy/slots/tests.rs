use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use sluicegate_base::address::ValidatedAddress;

use super::*;

type Wait<'a> = Pin<Box<dyn Future<Output = Slot> + 'a>>;

fn client(host: u64) -> ClientPrefix {
    let address = format!("192.0.2.{host}").parse::<ValidatedAddress>();
    address.unwrap().into()
}

/// Begins to wait, or returns a slot.
fn poll(wait: &mut Wait<'_>) -> Option<Slot> {
    match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(slot) => Some(slot),
        Poll::Pending => None,
    }
}

fn wait(slots: &Slots, host: u64) -> Wait<'_> {
    let mut wait: Wait<'_> = Box::pin(slots.take(client(host)));
    assert!(poll(&mut wait).is_none());
    wait
}

fn take_all(slots: &Slots, host: u64) -> Vec<Slot> {
    std::iter::from_fn(|| slots.try_take(client(host))).collect()
}

fn assert_unused(slots: &Slots) {
    let state = slots.0.as_ref().unwrap().state();
    assert_eq!(state.places.in_use(), (0, 0));
    assert_eq!((state.waiting.len(), state.turns.len()), (0, 0));
}

#[test]
fn clients_leave_some_of_many_slots_to_others() {
    for (count, alone) in [(1, 1), (7, 7), (8, 7), (9, 8), (10, 9), (15, 13), (16, 14), (64, 56)] {
        let slots = Slots::new(count);
        let held = take_all(&slots, 1);
        assert_eq!(held.len(), alone, "{count}");
        assert!(!slots.has_room(client(1)));
        assert_eq!(slots.has_room(client(2)), (alone as u64) < count);
    }
    let unlimited = Slots::new(0);
    assert!((0..100_000).all(|_| unlimited.try_take(client(1)).is_some()));
}

#[test]
fn clients_that_wait_take_turns_whatever_they_have() {
    let slots = Slots::new(3);
    let mut held = take_all(&slots, 1);
    let (mut first, mut again, mut third) = (wait(&slots, 1), wait(&slots, 1), wait(&slots, 1));
    let mut other = wait(&slots, 2);
    held.pop();
    let _first = poll(&mut first).unwrap();
    held.pop();
    assert!(poll(&mut again).is_none());
    let other = poll(&mut other).unwrap();
    drop(other);
    let _again = poll(&mut again).unwrap();
    held.pop();
    let _third = poll(&mut third).unwrap();
}

#[test]
fn small_clients_use_all_slots() {
    let slots = Slots::new(16);
    let held: Vec<_> = (0..16).map(|i| slots.try_take(client(i % 4))).collect();
    assert!(held.iter().all(Option::is_some));
    let mut waiting = wait(&slots, 1);
    drop(held);
    assert!(poll(&mut waiting).is_some());
}

#[test]
fn waits_that_end_leave_nothing_and_pass_their_slot_on() {
    let slots = Slots::new(1);
    let held = slots.try_take(client(1));
    let gone = wait(&slots, 2);
    let late = wait(&slots, 2);
    let mut last = wait(&slots, 3);
    drop(gone);
    drop(held);
    // It has a slot that it never looks at.
    drop(late);
    drop(poll(&mut last).unwrap());
    drop(last);
    assert_unused(&slots);
}

#[test]
fn a_slot_that_its_client_may_not_take_waits_for_others() {
    let slots = Slots::new(8);
    let mut held = take_all(&slots, 1);
    let mut greedy = wait(&slots, 1);
    let other = slots.try_take(client(2)).unwrap();
    drop(other);
    assert!(poll(&mut greedy).is_none());
    held.pop();
    let got = poll(&mut greedy);
    assert!(got.is_some());
    drop((greedy, got, held));
    assert_unused(&slots);
}

/// Clients take slots, wait for them, give them back and stop waiting at random. No slot is taken twice, and nobody waits while a slot is
/// free for them.
#[test]
fn slots_are_neither_lost_nor_made() {
    const COUNT: u64 = 9;
    let slots = Slots::new(COUNT);
    let (mut held, mut waits) = (Vec::new(), Vec::<Wait<'_>>::new());
    let mut random: u64 = 1;
    for _ in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let [action, host, place, ..] = random.to_be_bytes();
        let (host, place) = (u64::from(host % 4), usize::from(place));
        match action % 4 {
            0 => held.extend(slots.try_take(client(host))),
            1 if waits.len() < 20 => {
                let mut wait: Wait<'_> = Box::pin(slots.take(client(host)));
                match poll(&mut wait) {
                    Some(slot) => held.push(slot),
                    None => waits.push(wait),
                }
            }
            2 if !held.is_empty() => drop(held.swap_remove(place % held.len())),
            3 if !waits.is_empty() => drop(waits.swap_remove(place % waits.len())),
            _ => {}
        }
        waits.retain_mut(|wait| poll(wait).map(|slot| held.push(slot)).is_none());
        let state = slots.0.as_ref().unwrap().state();
        assert_eq!(state.places.in_use().0, held.len() as u64);
        assert!(held.len() as u64 <= COUNT);
        let waiting = state.waiting.values().map(|waiting| waiting.requests.len());
        assert_eq!(waiting.sum::<usize>(), waits.len());
        let mut waiting = state.waiting.keys();
        assert!(!waiting.any(|client| state.places.has_room(*client)));
    }
    drop((held, waits));
    assert_unused(&slots);
}

#[test]
fn threads_wait_for_each_other_s_slots() {
    let slots = Slots::new(2);
    std::thread::scope(|scope| {
        for host in 0..4 {
            let slots = &slots;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.unwrap().block_on(async {
                    for _ in 0..1000 {
                        let slot = pin!(slots.take(client(host))).await;
                        tokio::task::yield_now().await;
                        drop(slot);
                    }
                });
            });
        }
    });
    assert_unused(&slots);
}
