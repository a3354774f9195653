//! Order and share of handshakes.

use std::rc::Rc;

use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::*;

const HANDSHAKES: usize = 100;

thread_local!(static NOW: Cell<Instant> = Cell::new(sluicegate_base::clock::now()));

/// Returns the time of the test: a step takes none, nor does anything else, unless it calls [`advance`].
fn now() -> Instant {
    NOW.get()
}

fn advance(time: Duration) {
    NOW.set(now() + time);
}

/// Handshakes of a test, and the order in which their steps ran.
struct Fixture {
    pace: Rc<HandshakePace>,
    /// Number of each handshake, and whether the server had responded to it.
    order: Rc<RefCell<Vec<(usize, bool)>>>,
    /// Time that each step takes.
    time: Duration,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture {
            pace: Rc::new(HandshakePace::new(now)),
            order: Rc::default(),
            time: Duration::ZERO,
        }
    }

    /// Runs until it is aborted.
    fn keep(&self) -> JoinHandle<()> {
        let pace = Rc::clone(&self.pace);
        spawn_local(async move { pace.keep().await })
    }

    /// Begins a handshake of two steps. The second one follows at once.
    fn begin(&self, number: usize) -> JoinHandle<()> {
        let (pace, order, time) = (Rc::clone(&self.pace), Rc::clone(&self.order), self.time);
        spawn_local(async move {
            let is_begun = Cell::new(false);
            let handshake = poll_fn(|cx| {
                order.borrow_mut().push((number, is_begun.get()));
                advance(time);
                if is_begun.replace(true) {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            });
            pace.run(handshake, || is_begun.get()).await;
        })
    }

    fn steps(&self) -> usize {
        self.order.borrow().len()
    }
}

async fn run(test: impl AsyncFnOnce(Fixture)) {
    let local = LocalSet::new();
    local.run_until(test(Fixture::new())).await;
}

#[tokio::test]
async fn other_tasks_run_between_the_steps_of_many_handshakes() {
    run(async |fixture| {
        let keeper = fixture.keep();
        let tasks: Vec<_> = (0..HANDSHAKES).map(|number| fixture.begin(number)).collect();
        let mut before = 0;
        while fixture.steps() < 2 * HANDSHAKES {
            yield_now().await;
            let more = fixture.steps() - std::mem::replace(&mut before, fixture.steps());
            assert!(more <= STEPS, "{more} steps at once");
        }
        for task in tasks {
            task.await.unwrap();
        }
        keeper.abort();
        let order = fixture.order.take();
        for is_begun in [false, true] {
            let steps = order.iter().filter(|(_, begun)| *begun == is_begun);
            assert!(steps.is_sorted(), "{order:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_begun_goes_on_before_others_begin() {
    run(async |fixture| {
        let keeper = fixture.keep();
        let tasks: Vec<_> = (0..HANDSHAKES).map(|number| fixture.begin(number)).collect();
        for task in tasks {
            task.await.unwrap();
        }
        keeper.abort();
        let mut open = 0_usize;
        for (_, is_begun) in fixture.order.take() {
            open = if is_begun { open - 1 } else { open + 1 };
            assert!(open <= 2 * STEPS, "{open} are begun");
        }
    })
    .await;
}

#[tokio::test]
async fn connections_wait_to_be_accepted_while_too_many_are_new() {
    run(async |fixture| {
        let mut tasks: Vec<_> = (0..STEPS + MOST_NEW).map(|at| fixture.begin(at)).collect();
        for _ in 0..HANDSHAKES {
            yield_now().await;
        }
        let mut room = pin!(fixture.pace.room());
        let mut is_ready =
            async || poll_fn(|cx| Poll::Ready(room.as_mut().poll(cx).is_ready())).await;
        // Those that are begun wait, too, and count not.
        assert_eq!(fixture.pace.waiting(), (STEPS + MOST_NEW) as u64);
        assert!(!is_ready().await);
        // The connections of some are gone: their places are free once their turn has come.
        for task in tasks.drain(..2 * STEPS) {
            task.abort();
        }
        let keeper = fixture.keep();
        fixture.pace.used_up.notify_one();
        while fixture.pace.queue.borrow().new.len() == MOST_NEW {
            yield_now().await;
        }
        assert!(is_ready().await);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(fixture.pace.waiting(), 0);
        keeper.abort();
    })
    .await;
}

#[tokio::test]
async fn steps_that_take_longer_than_those_before_get_no_more_time_than_others() {
    const OTHERS: usize = 2 * STEPS;
    run(async |mut fixture| {
        let millisecond = Duration::from_millis(1);
        fixture.time = millisecond;
        // Clients have sent handshakes a byte at a time.
        for _ in 0..1000 {
            fixture.pace.note(Duration::from_micros(1));
        }
        let keeper = fixture.keep();
        let tasks: Vec<_> = (0..HANDSHAKES).map(|number| fixture.begin(number)).collect();
        let (mut before, mut most) = (0, 0);
        while fixture.steps() < 2 * HANDSHAKES {
            advance(millisecond * u32::try_from(OTHERS).unwrap());
            yield_now().await;
            let more = fixture.steps() - std::mem::replace(&mut before, fixture.steps());
            most = most.max(more);
        }
        for task in tasks {
            task.await.unwrap();
        }
        keeper.abort();
        assert_eq!(most, OTHERS);
        assert_eq!(fixture.pace.waiting(), 0);
        let mut open = 0_usize;
        for (_, is_begun) in fixture.order.take() {
            open = if is_begun { open - 1 } else { open + 1 };
            assert!(open <= 2 * OTHERS, "{open} are begun");
        }
    })
    .await;
}

#[test]
fn steps_that_nobody_needs_are_not_kept_for_later() {
    let mut queue = Queue::default();
    let turns: Vec<_> = (0..STEPS).map(|_| queue.enter(false).unwrap()).collect();
    queue.admit(MOST_STEPS);
    for mut turn in turns {
        assert!(turn.try_recv().is_ok());
    }
    assert_eq!(queue.left, STEPS);
}

#[test]
fn handshakes_take_as_long_as_all_others_and_a_few_steps_at_least() {
    let micros = Duration::from_micros;
    for (others, mean, expected) in [
        (0, 0, STEPS),
        (0, 200, STEPS),
        (1000, 200, STEPS),
        (10_000, 200, 50),
        (10_000, 1000, 10),
        (100_000, 200, MOST_STEPS),
        (1, 0, MOST_STEPS),
    ] {
        assert_eq!(steps(micros(others), micros(mean)), expected, "{others}");
    }
}
