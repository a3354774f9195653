//! Verification in virtual time.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};

use sluicegate_base::address::ValidatedAddress;

use super::*;
use crate::auth::results::{LONGEST, REMEMBERED};
use crate::auth::turns::{PENDING, PENDING_OF_CLIENT};

/// bcrypt hash of `secret`.
const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

fn users() -> Users {
    Users::parse(&format!("ada:{HASH}")).unwrap()
}

fn verifier() -> Verifier {
    Verifier::new(Arc::new(PasswordChecks::new(2).unwrap()))
}

/// Takes all slots, so that nothing is computed until they are dropped.
fn slots(verifier: &Verifier) -> [impl Drop; 2] {
    [(); 2].map(|()| verifier.checks.take_slot())
}

fn claim(user: &str, password: &str) -> Credentials {
    Credentials { user: user.into(), password: password.into() }
}

fn client(last: u8) -> ValidatedAddress {
    IpAddr::from([192, 0, 2, last]).into()
}

/// Waits for all of these at a time, as tasks do.
async fn all(
    mut waiting: Vec<Pin<Box<impl Future<Output = PasswordVerdict>>>>,
) -> Vec<PasswordVerdict> {
    let mut verdicts = Vec::new();
    std::future::poll_fn(|cx| {
        waiting.retain_mut(|one| match one.as_mut().poll(cx) {
            Poll::Ready(verdict) => {
                verdicts.push(verdict);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    verdicts
}

fn run(test: impl Future<Output = ()>) {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().unwrap().block_on(test);
}

fn is_ready(future: Pin<&mut impl Future<Output = PasswordVerdict>>) -> Option<PasswordVerdict> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => Some(verdict),
        Poll::Pending => None,
    }
}

#[test]
fn only_a_user_with_the_password_is_accepted() {
    run(async {
        let (verifier, users) = (verifier(), users());
        for (user, password, expected) in [
            ("ada", "secret", PasswordVerdict::Accepted),
            ("ada", "Secret", PasswordVerdict::Refused),
            ("ada", "", PasswordVerdict::Refused),
            // The password of the hash that stands for users who do not exist.
            ("eve", "secret", PasswordVerdict::Refused),
            ("", "secret", PasswordVerdict::Refused),
        ] {
            for _ in 0..2 {
                let verdict = verifier.verify(&users, claim(user, password), client(1)).await;
                assert_eq!(verdict, expected, "{user}:{password}");
            }
        }
        let expected = AuthCounters { accepted: 2, refused: 8, busy: 0, hashes: 5 };
        assert_eq!(verifier.counters(), expected);
    });
}

#[test]
fn result_holds_for_a_minute_and_for_the_line_of_the_file() {
    run(async {
        let (verifier, users) = (verifier(), users());
        let ask = |users, password| verifier.verify(users, claim("ada", password), client(1));
        assert_eq!(ask(&users, "secret").await, PasswordVerdict::Accepted);
        assert_eq!(ask(&users, "wrong").await, PasswordVerdict::Refused);
        tokio::time::advance(REMEMBERED - Duration::from_millis(1)).await;
        assert_eq!(ask(&users, "wrong").await, PasswordVerdict::Refused);
        assert_eq!(verifier.counters().hashes, 2);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask(&users, "secret").await, PasswordVerdict::Accepted);
        assert_eq!(ask(&users, "wrong").await, PasswordVerdict::Refused);
        assert_eq!(verifier.counters().hashes, 4);
        let changed = HASH.replace("r9Of", "r8Of");
        let changed = Users::parse(&format!("ada:{changed}")).unwrap();
        assert_eq!(ask(&changed, "secret").await, PasswordVerdict::Refused);
        assert_eq!(ask(&users, "secret").await, PasswordVerdict::Accepted);
    });
}

#[test]
fn requests_with_the_same_credentials_share_one_check() {
    run(async {
        let (verifier, users) = (verifier(), users());
        let ask = |last| verifier.verify(&users, claim("ada", "secret"), client(last));
        let (mut first, mut second) = (Box::pin(ask(1)), pin!(ask(2)));
        let slots = slots(&verifier);
        assert_eq!(is_ready(first.as_mut()), None);
        assert_eq!(is_ready(second.as_mut()), None);
        // The request that began the check is cancelled: another one makes its own.
        drop((first, slots));
        assert_eq!(second.await, PasswordVerdict::Accepted);
        let (third, fourth) = tokio::join!(ask(3), ask(4));
        assert_eq!((third, fourth), (PasswordVerdict::Accepted, PasswordVerdict::Accepted));
        assert_eq!(verifier.counters().hashes, 1, "the first one had no slot yet");
        assert!(verifier.pending.borrow().is_empty());
    });
}

#[test]
fn checks_that_wait_are_bounded_for_each_client_and_in_all() {
    run(async {
        let (verifier, users) = (verifier(), users());
        let ask = |last, number: u64| {
            let claimed = claim("ada", &format!("guess {number}"));
            Box::pin(verifier.verify(&users, claimed, client(last)))
        };
        let mut waiting = Vec::new();
        let slots = slots(&verifier);
        for number in 0..PENDING as u64 {
            let last = u8::try_from(number / PENDING_OF_CLIENT).unwrap();
            let mut one = ask(last, number);
            assert_eq!(is_ready(one.as_mut()), None, "{number}");
            waiting.push(one);
            if number == PENDING_OF_CLIENT - 1 {
                assert_eq!(is_ready(ask(0, 1000).as_mut()), Some(PasswordVerdict::Busy));
                let mut same = ask(0, 0);
                assert_eq!(is_ready(same.as_mut()), None, "the same credentials share a check");
            }
        }
        assert_eq!(verifier.counters().hashes, 0, "all slots are taken");
        let mut next = ask(200, 1000);
        assert_eq!(is_ready(next.as_mut()), None, "the fourth check of another client gives way");
        assert_eq!(verifier.checks.pending(), PENDING);
        let place = usize::try_from(PENDING_OF_CLIENT).unwrap() - 1;
        assert_eq!(waiting.remove(place).await, PasswordVerdict::Busy);
        waiting.push(next);
        drop(slots);
        assert!(all(waiting).await.iter().all(|one| *one == PasswordVerdict::Refused));
        assert!(verifier.pending.borrow().is_empty());
        assert_eq!(verifier.checks.pending(), 0);
        assert_eq!(verifier.counters().busy, 2);
    });
}

#[test]
fn a_hash_that_is_computed_keeps_its_place_and_its_result_when_the_request_is_cancelled() {
    run(async {
        let (verifier, users) = (verifier(), users());
        let ask =
            |password: &str| Box::pin(verifier.verify(&users, claim("ada", password), client(1)));
        // Both threads are busy, so the hashes are not computed before these senders are dropped.
        let busy = [(); 2].map(|()| {
            let (busy, works) = std::sync::mpsc::channel::<()>();
            (busy, verifier.checks.spawn(move || works.recv()))
        });
        for password in ["secret", "wrong"] {
            assert_eq!(is_ready(ask(password).as_mut()), None);
        }
        assert_eq!(verifier.counters().hashes, 2);
        assert!(verifier.pending.borrow().is_empty());
        assert_eq!(verifier.checks.pending(), 2, "the hashes go on");
        let mut waiting: Vec<_> =
            (2..PENDING_OF_CLIENT).map(|number| ask(&format!("guess {number}"))).collect();
        for one in &mut waiting {
            assert_eq!(is_ready(one.as_mut()), None);
        }
        assert_eq!(is_ready(ask("other").as_mut()), Some(PasswordVerdict::Busy));
        for (busy, hash) in busy {
            drop(busy);
            assert!(hash.await.unwrap().is_err());
        }
        for one in waiting {
            assert_eq!(one.await, PasswordVerdict::Refused);
        }
        // One thread may have computed all but one of the hashes: both meet here once they have finished.
        let meeting = Arc::new(Barrier::new(2));
        let meetings = [(); 2].map(|()| {
            let meeting = Arc::clone(&meeting);
            verifier.checks.spawn(move || meeting.wait())
        });
        for one in meetings {
            one.await.unwrap();
        }
        assert_eq!(verifier.checks.pending(), 0);
        assert_eq!(ask("secret").await, PasswordVerdict::Accepted);
        assert_eq!(ask("wrong").await, PasswordVerdict::Refused);
        assert_eq!(verifier.counters().hashes, PENDING_OF_CLIENT, "none twice");
    });
}

#[test]
fn valid_credentials_are_renewed_by_each_use_for_an_hour() {
    run(async {
        let (verifier, users) = (verifier(), users());
        let ask = |password| verifier.verify(&users, claim("ada", password), client(1));
        for seconds in (0..LONGEST.as_secs()).step_by(59) {
            assert_eq!(ask("secret").await, PasswordVerdict::Accepted);
            assert_eq!(verifier.counters().hashes, 1, "after {seconds} s");
            tokio::time::advance(Duration::from_secs(59)).await;
        }
        assert_eq!(ask("secret").await, PasswordVerdict::Accepted);
        assert_eq!(verifier.counters().hashes, 2);
        assert_eq!(ask("wrong").await, PasswordVerdict::Refused);
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(ask("wrong").await, PasswordVerdict::Refused);
        tokio::time::advance(Duration::from_secs(40)).await;
        assert_eq!(ask("wrong").await, PasswordVerdict::Refused);
        assert_eq!(verifier.counters().hashes, 4, "refused ones are not renewed");
    });
}

#[test]
fn all_threads_share_the_bounds() {
    run(async {
        let checks = Arc::new(PasswordChecks::new(1).unwrap());
        let verifiers = [1, 2].map(|_| Verifier::new(Arc::clone(&checks)));
        let users = users();
        let slot = checks.take_slot();
        let ask = |verifier: usize, number: u64| {
            let claimed = claim("ada", &format!("guess {number}"));
            Box::pin(verifiers[verifier].verify(&users, claimed, client(1)))
        };
        let mut waiting = Vec::new();
        for number in 0..PENDING_OF_CLIENT {
            let mut one = ask(0, number);
            assert_eq!(is_ready(one.as_mut()), None, "{number}");
            waiting.push(one);
        }
        assert_eq!(is_ready(ask(1, 1000).as_mut()), Some(PasswordVerdict::Busy));
        waiting.pop();
        let mut other = ask(1, 1000);
        assert_eq!(is_ready(other.as_mut()), None);
        let hashes = || verifiers.each_ref().map(|one| one.counters().hashes);
        assert_eq!(hashes(), [0, 0], "they share the slot");
        drop(slot);
        for one in waiting {
            assert_eq!(one.await, PasswordVerdict::Refused);
        }
        assert_eq!(other.await, PasswordVerdict::Refused);
        assert_eq!(hashes(), [PENDING_OF_CLIENT - 1, 1]);
        assert_eq!(checks.pending(), 0);
    });
}

#[test]
fn all_threads_share_the_results() {
    run(async {
        let checks = Arc::new(PasswordChecks::new(2).unwrap());
        let verifiers = [1, 2].map(|_| Verifier::new(Arc::clone(&checks)));
        let users = users();
        let ask = |verifier: usize, password| {
            verifiers[verifier].verify(&users, claim("ada", password), client(1))
        };
        let hashes = || verifiers.each_ref().map(|one| one.counters().hashes);
        for (password, expected) in
            [("secret", PasswordVerdict::Accepted), ("wrong", PasswordVerdict::Refused)]
        {
            assert_eq!(ask(0, password).await, expected);
            assert_eq!(ask(1, password).await, expected);
        }
        assert_eq!(hashes(), [2, 0]);
        // The use at one thread prolongs the result at the other.
        for _ in 0..3 {
            tokio::time::advance(REMEMBERED - COPIED).await;
            assert_eq!(ask(0, "secret").await, PasswordVerdict::Accepted);
            tokio::time::advance(COPIED).await;
            assert_eq!(ask(1, "secret").await, PasswordVerdict::Accepted);
        }
        assert_eq!(hashes(), [2, 0]);
        // A copy holds no longer than the result.
        tokio::time::advance(REMEMBERED).await;
        assert_eq!(ask(1, "secret").await, PasswordVerdict::Accepted);
        assert_eq!(hashes(), [2, 1]);
    });
}

#[test]
fn threads_that_wait_for_the_same_check_compute_one_hash() {
    run(async {
        let checks = Arc::new(PasswordChecks::new(1).unwrap());
        let verifiers = [1, 2].map(|_| Verifier::new(Arc::clone(&checks)));
        let users = users();
        let slot = checks.take_slot();
        let mut asks: Vec<_> = { verifiers.iter() }
            .map(|verifier| Box::pin(verifier.verify(&users, claim("ada", "secret"), client(1))))
            .collect();
        for ask in &mut asks {
            assert_eq!(is_ready(ask.as_mut()), None);
        }
        drop(slot);
        for ask in asks {
            assert_eq!(ask.await, PasswordVerdict::Accepted);
        }
        let hashes: u64 = verifiers.iter().map(|one| one.counters().hashes).sum();
        assert_eq!(hashes, 1);
    });
}

#[test]
fn a_disk_that_hangs_keeps_no_password_waiting_nor_does_a_hash_keep_a_file() {
    const LIMIT: Duration = Duration::from_secs(60);
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let (verifier, users) = (verifier(), users());
        let (disk, hangs) = std::sync::mpsc::channel::<()>();
        let read = tokio::task::spawn_blocking(move || hangs.recv());
        let verdict = verifier.verify(&users, claim("ada", "secret"), client(1));
        let verdict = tokio::time::timeout(LIMIT, verdict).await;
        drop(disk);
        assert_eq!(verdict, Ok(PasswordVerdict::Accepted));
        assert!(read.await.unwrap().is_err());
        // Both threads for hashes are busy.
        let (busy, hashes): (Vec<_>, Vec<_>) = [(); 2]
            .map(|()| {
                let (busy, works) = std::sync::mpsc::channel::<()>();
                (busy, verifier.checks.spawn(move || works.recv()))
            })
            .into_iter()
            .unzip();
        let read = tokio::task::spawn_blocking(|| ());
        let read = tokio::time::timeout(LIMIT, read).await;
        drop(busy);
        assert!(read.is_ok());
        for hash in hashes {
            assert!(hash.await.unwrap().is_err());
        }
    });
}
