//! Verification in virtual time.

use std::net::Ipv4Addr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use super::*;

/// bcrypt hash of `secret`.
const HASH: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";

fn users() -> Users {
    Users::parse(&format!("ada:{HASH}")).unwrap()
}

fn claim(user: &str, password: &str) -> Credentials {
    Credentials {
        user: user.into(),
        password: password.into(),
    }
}

fn client(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn run(test: impl Future<Output = ()>) {
    let builder = &mut tokio::runtime::Builder::new_current_thread();
    builder
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test);
}

fn is_ready(future: Pin<&mut impl Future<Output = Verdict>>) -> Option<Verdict> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(verdict) => Some(verdict),
        Poll::Pending => None,
    }
}

#[test]
fn only_a_user_with_the_password_is_accepted() {
    run(async {
        let (verifier, users) = (Verifier::new(), users());
        for (user, password, expected) in [
            ("ada", "secret", Verdict::Accepted),
            ("ada", "Secret", Verdict::Refused),
            ("ada", "", Verdict::Refused),
            // The password of the hash that stands for users who do not exist.
            ("eve", "secret", Verdict::Refused),
            ("", "secret", Verdict::Refused),
        ] {
            for _ in 0..2 {
                let verdict = verifier
                    .verify(&users, claim(user, password), client(1))
                    .await;
                assert_eq!(verdict, expected, "{user}:{password}");
            }
        }
        let expected = Counters {
            accepted: 2,
            refused: 8,
            busy: 0,
            hashes: 5,
        };
        assert_eq!(verifier.counters(), expected);
    });
}

#[test]
fn result_holds_for_a_minute_and_for_the_line_of_the_file() {
    run(async {
        let (verifier, users) = (Verifier::new(), users());
        let ask = |users, password| verifier.verify(users, claim("ada", password), client(1));
        assert_eq!(ask(&users, "secret").await, Verdict::Accepted);
        assert_eq!(ask(&users, "wrong").await, Verdict::Refused);
        tokio::time::advance(REMEMBERED - Duration::from_millis(1)).await;
        assert_eq!(ask(&users, "secret").await, Verdict::Accepted);
        assert_eq!(ask(&users, "wrong").await, Verdict::Refused);
        assert_eq!(verifier.counters().hashes, 2);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(ask(&users, "secret").await, Verdict::Accepted);
        assert_eq!(ask(&users, "wrong").await, Verdict::Refused);
        assert_eq!(verifier.counters().hashes, 4);
        let changed = HASH.replace("r9Of", "r8Of");
        let changed = Users::parse(&format!("ada:{changed}")).unwrap();
        assert_eq!(ask(&changed, "secret").await, Verdict::Refused);
        assert_eq!(ask(&users, "secret").await, Verdict::Accepted);
    });
}

#[test]
fn requests_with_the_same_credentials_share_one_check() {
    run(async {
        let (verifier, users) = (Verifier::new(), users());
        let ask = |last| verifier.verify(&users, claim("ada", "secret"), client(last));
        let (mut first, mut second) = (Box::pin(ask(1)), pin!(ask(2)));
        assert_eq!(is_ready(first.as_mut()), None);
        assert_eq!(is_ready(second.as_mut()), None);
        // The request that began the check is cancelled: another one makes its own.
        drop(first);
        assert_eq!(second.await, Verdict::Accepted);
        let (third, fourth) = tokio::join!(ask(3), ask(4));
        assert_eq!((third, fourth), (Verdict::Accepted, Verdict::Accepted));
        assert_eq!(verifier.counters().hashes, 2);
        assert!(verifier.pending.borrow().is_empty());
    });
}

#[test]
fn checks_that_wait_are_bounded_for_each_client_and_in_all() {
    run(async {
        let (verifier, users) = (Verifier::new(), users());
        let ask = |last, number: usize| {
            let claimed = claim("ada", &format!("guess {number}"));
            Box::pin(verifier.verify(&users, claimed, client(last)))
        };
        let mut waiting = Vec::new();
        for number in 0..PENDING {
            let last = u8::try_from(number / PENDING_OF_CLIENT).unwrap();
            let mut one = ask(last, number);
            assert_eq!(is_ready(one.as_mut()), None, "{number}");
            waiting.push(one);
            if number == PENDING_OF_CLIENT - 1 {
                assert_eq!(is_ready(ask(0, 1000).as_mut()), Some(Verdict::Busy));
                let mut same = ask(0, 0);
                assert_eq!(
                    is_ready(same.as_mut()),
                    None,
                    "the same credentials share a check"
                );
            }
        }
        assert_eq!(is_ready(ask(200, 1000).as_mut()), Some(Verdict::Busy));
        assert_eq!(verifier.counters().hashes, AT_ONCE as u64);
        waiting.pop();
        let mut next = ask(200, 1000);
        assert_eq!(
            is_ready(next.as_mut()),
            None,
            "a cancelled request makes room"
        );
        waiting.push(next);
        for one in waiting {
            assert_eq!(one.await, Verdict::Refused);
        }
        assert!(verifier.pending.borrow().is_empty());
        assert_eq!(verifier.counters().busy, 2);
    });
}
