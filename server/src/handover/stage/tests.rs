use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// Returns the actions that follow from news, and the stage at the end.
fn follow(stage: Stage, all: &[News]) -> (Vec<Action>, Option<Stage>) {
    let mut stage = Some(stage);
    let actions = all.iter().map(|news| {
        let (next, action) = stage.unwrap().on(*news);
        stage = next;
        action
    });
    (actions.collect(), stage)
}

#[test]
fn an_upgrade_goes_through_its_stages_and_back() {
    let there = [News::Ready(7), News::HandshakesDone, News::Reading];
    let (actions, stage) = follow(Stage::Starting, &there);
    assert_eq!(actions, [Action::Forward(7), Action::Change, Action::Drain]);
    let back = [News::Back, News::Read, News::Gone];
    let (actions, stage) = follow(stage.unwrap(), &back);
    assert_eq!((actions, stage), (vec![Action::Prepare, Action::Serve, Action::Forget], None));
}

#[test]
fn a_process_serves_again_if_the_one_after_it_ends_without_a_word() {
    assert_eq!(Stage::Draining.on(News::Gone), (None, Action::Serve));
    assert_eq!(Stage::Returning.on(News::Gone), (None, Action::Serve));
    let (actions, stage) = follow(Stage::Draining, &[News::Replaced, News::Back, News::Gone]);
    assert_eq!((actions, stage), (vec![Action::Nothing, Action::Nothing, Action::Stop], None));
}

#[test]
fn a_way_back_that_is_broken_off_leaves_all_as_it_was() {
    let (actions, stage) = follow(Stage::Draining, &[News::Back, News::Stay, News::Read]);
    let expected = [Action::Prepare, Action::DrainAgain, Action::Nothing];
    assert_eq!((&actions[..], stage), (&expected[..], Some(Stage::Draining)));
    for stage in [Stage::Starting, Stage::Forwarding, Stage::Changing] {
        assert_eq!(stage.on(News::Declined), (None, Action::Undo));
    }
}

/// What happens next to two processes.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The process of this number takes the next message of the other one.
    Deliver(usize),
    /// The handshakes of the process of this number are done.
    Handshakes(usize),
    /// An operator asks the process that serves for an upgrade, or for the way back.
    Ask,
    /// The process of this number loses patience.
    Late(usize),
    /// The process of this number dies.
    Die(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..2usize).prop_map(Step::Deliver),
        4 => (0..2usize).prop_map(Step::Handshakes),
        4 => Just(Step::Ask),
        1 => (0..2usize).prop_map(Step::Late),
        1 => (0..2usize).prop_map(Step::Die),
    ]
}

/// A process of the model. The older one has number 0.
#[derive(Debug, Default)]
struct Process {
    lives: bool,
    reads: bool,
    /// It takes new connections, wherever they come in.
    accepts: bool,
    /// It has told its clients to go, since it last took the service.
    drains: bool,
    stage: Option<Stage>,
    inbox: VecDeque<News>,
}

#[derive(Debug, Default)]
struct Pair([Process; 2]);

impl Pair {
    fn new() -> Pair {
        let mut pair = Pair::default();
        let older = &mut pair.0[0];
        (older.lives, older.reads, older.accepts) = (true, true, true);
        pair
    }

    fn send(&mut self, from: usize, news: News) {
        let other = &mut self.0[1 - from];
        if other.lives {
            other.inbox.push_back(news);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Deliver(to) if self.0[to].lives => {
                if let Some(news) = self.0[to].inbox.pop_front() {
                    self.on(to, news);
                }
            }
            Step::Handshakes(at) if self.0[at].lives => self.news(at, News::HandshakesDone),
            Step::Ask => self.ask(),
            Step::Late(at) if self.0[at].lives => self.late(at),
            Step::Die(at) if self.0[at].lives => self.die(at),
            _ => {}
        }
    }

    fn die(&mut self, at: usize) {
        if std::mem::take(&mut self.0[at]).lives {
            self.send(at, News::Gone);
        }
    }

    fn ask(&mut self) {
        let [older, newer] = &mut self.0;
        if older.lives && older.reads && older.stage.is_none() && !newer.lives {
            (newer.lives, older.stage) = (true, Some(Stage::Starting));
            newer.accepts = true;
            self.send(1, News::Ready(1));
        } else if newer.lives && newer.reads && newer.stage.is_none() && older.lives {
            newer.stage = Some(Stage::Starting);
            self.send(1, News::Back);
        }
    }

    fn late(&mut self, at: usize) {
        match self.0[at].stage {
            Some(Stage::Starting | Stage::Forwarding) if at == 1 => {
                self.send(1, News::Stay);
                self.news(1, News::Declined);
            }
            Some(Stage::Starting | Stage::Changing) => self.die(1 - at),
            _ => {}
        }
    }

    /// Takes a message. The machine is the one that leaves the service; the newer process takes it as it comes.
    fn on(&mut self, at: usize, news: News) {
        let process = &mut self.0[at];
        let has_service = process.reads || process.stage.is_some();
        if at == 1 && !has_service && matches!(news, News::Read | News::Gone) {
            (process.reads, process.accepts) = (true, true);
            self.send(1, News::Reading);
            return;
        }
        self.news(at, news);
    }

    fn news(&mut self, at: usize, news: News) {
        let Some(stage) = self.0[at].stage else { return };
        let (next, action) = stage.on(news);
        self.0[at].stage = next;
        let process = &mut self.0[at];
        match action {
            Action::Forward(_) => process.accepts = false,
            Action::Change => {
                process.reads = false;
                self.send(at, News::Read);
            }
            Action::Drain | Action::DrainAgain => (process.drains, process.accepts) = (true, false),
            Action::Undo => (process.reads, process.accepts) = (true, true),
            Action::Prepare => {
                (process.drains, process.accepts) = (false, true);
                self.send(at, News::Ready(0));
            }
            Action::Serve => {
                (process.reads, process.drains, process.accepts) = (true, false, true);
                self.send(at, News::Reading);
            }
            // Only a third process brings that about.
            Action::Stop => panic!("{stage:?} {news:?}"),
            Action::Forget | Action::Nothing => {}
        }
    }
}

proptest! {
    /// Whatever dies, and whenever, two never read; and as long as one lives, one reads and takes new connections once all messages have
    /// arrived and all handshakes are done.
    #[test]
    fn one_of_two_serves(steps in proptest::collection::vec(any_step(), 0..120)) {
        let mut pair = Pair::new();
        for step in steps {
            pair.step(step);
            let [older, newer] = &pair.0;
            prop_assert!(!(older.reads && newer.reads), "{pair:?}");
            for one in &pair.0 {
                prop_assert!(!(one.reads && one.drains), "{pair:?}");
            }
        }
        for _ in 0..20 {
            for at in [0, 1] {
                pair.step(Step::Deliver(at));
                pair.step(Step::Handshakes(at));
            }
        }
        let lives = pair.0.iter().any(|one| one.lives);
        let serving = pair.0.iter().filter(|one| one.reads && one.accepts).count();
        prop_assert_eq!(serving, usize::from(lives), "{:?}", pair);
    }
}

/// A process of a family: each was started by its parent, and all drain but one.
#[derive(Debug, Default)]
struct Member {
    lives: bool,
    reads: bool,
    /// It has read since its start.
    has_served: bool,
    parent: Option<usize>,
    /// Process to which it leaves the service, or has left it.
    current: Option<(usize, Stage)>,
    /// Processes that have left the service to it.
    returned: Vec<usize>,
    inbox: VecDeque<(usize, News)>,
}

#[derive(Debug)]
struct Family(Vec<Member>);

/// Processes of a family at most.
const MOST: usize = 6;

impl Family {
    fn new() -> Family {
        Family(vec![Member { lives: true, reads: true, has_served: true, ..Member::default() }])
    }

    fn send(&mut self, from: usize, to: usize, news: News) {
        if self.0[to].lives {
            self.0[to].inbox.push_back((from, news));
        }
    }

    /// Kills a process, or lets it stop. Its parent and those that it has started notice.
    fn die(&mut self, at: usize) {
        let Member { lives, parent, .. } = self.0[at];
        if !lives {
            return;
        }
        self.0[at] = Member { parent, ..Member::default() };
        let children = (0..self.0.len()).filter(|one| self.0[*one].parent == Some(at));
        for other in children.chain(parent).collect::<Vec<_>>() {
            self.send(at, other, News::Gone);
        }
    }

    /// Tells the others that they are not to serve.
    fn tell_others(&mut self, at: usize) {
        let others = self.0[at].returned.clone().into_iter().chain(self.0[at].parent);
        for other in others.collect::<Vec<_>>() {
            self.send(at, other, News::Replaced);
        }
    }

    /// Tells the one that is to serve if this process dies.
    fn tell_heir(&mut self, at: usize) {
        if let Some(heir) = self.0[at].returned.last().copied().or(self.0[at].parent) {
            self.send(at, heir, News::Reading);
        }
    }

    /// Asks the process that serves for an upgrade, or for the way back.
    fn ask(&mut self, back: bool) {
        let Some(at) = self.0.iter().position(|one| one.reads && one.current.is_none()) else {
            return;
        };
        let parent = self.0[at].parent.filter(|parent| self.0[*parent].lives);
        if let (true, Some(parent), true) = (back, parent, self.0[at].returned.is_empty()) {
            self.0[at].current = Some((parent, Stage::Starting));
            self.send(at, parent, News::Back);
        } else if !back && self.0.len() < MOST {
            self.tell_others(at);
            let newer = self.0.len();
            self.0.push(Member { lives: true, parent: Some(at), ..Member::default() });
            self.0[at].current = Some((newer, Stage::Starting));
            self.send(newer, at, News::Ready(1));
        }
    }

    fn deliver(&mut self, at: usize) {
        let Some((from, news)) = self.0[at].inbox.pop_front() else { return };
        let member = &mut self.0[at];
        if member.parent == Some(from)
            && !member.has_served
            && matches!(news, News::Read | News::Gone)
        {
            (member.reads, member.has_served) = (true, true);
            return self.send(at, from, News::Reading);
        }
        self.news(at, from, news);
    }

    fn news(&mut self, at: usize, from: usize, news: News) {
        let member = &mut self.0[at];
        let before = member.returned.len();
        member.returned.retain(|one| *one != from);
        let stage = if member.returned.len() < before {
            Stage::Returned
        } else if let Some((_, stage)) = member.current.take_if(|(other, _)| *other == from) {
            stage
        } else {
            return;
        };
        if news == News::Back && stage != Stage::Draining {
            member.current = Some((from, stage));
            return self.send(at, from, News::Declined);
        }
        let (next, action) = stage.on(news);
        match next {
            Some(Stage::Returned) => member.returned.push(from),
            Some(next) => member.current = Some((from, next)),
            None => {}
        }
        match action {
            Action::Change => {
                member.reads = false;
                self.send(at, from, News::Read);
            }
            Action::Undo => {
                member.reads = true;
                self.tell_heir(at);
            }
            Action::Prepare => self.send(at, from, News::Ready(0)),
            Action::Serve => {
                member.reads = true;
                if next.is_some() {
                    self.send(at, from, News::Reading);
                } else {
                    self.tell_heir(at);
                }
            }
            Action::Forget if member.current.is_none() => self.tell_heir(at),
            Action::Stop => self.die(at),
            _ => {}
        }
    }

    fn step(&mut self, step: Step) {
        let at = |number: usize, family: &Family| number % family.0.len();
        match step {
            Step::Deliver(number) => self.deliver(at(number, self)),
            Step::Handshakes(number) => {
                let at = at(number, self);
                if let Some((other, _)) = self.0[at].current {
                    self.news(at, other, News::HandshakesDone);
                }
            }
            Step::Ask => self.ask(false),
            Step::Late(_) => self.ask(true),
            Step::Die(number) => self.die(at(number, self)),
        }
    }
}

fn any_step_of_a_family() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..MOST).prop_map(Step::Deliver),
        6 => (0..MOST).prop_map(Step::Handshakes),
        3 => Just(Step::Ask),
        // The way back.
        3 => Just(Step::Late(0)),
        1 => (0..MOST).prop_map(Step::Die),
    ]
}

proptest! {
    /// However many drain, and whichever dies: two never read, and one of those that are left does in the end.
    #[test]
    fn one_of_many_serves(steps in proptest::collection::vec(any_step_of_a_family(), 0..200)) {
        let mut family = Family::new();
        for step in steps {
            family.step(step);
            let readers = family.0.iter().filter(|one| one.reads).count();
            prop_assert!(readers <= 1, "{family:?}");
        }
        for _ in 0..40 {
            for at in 0..family.0.len() {
                family.step(Step::Deliver(at));
                family.step(Step::Handshakes(at));
            }
        }
        let lives = family.0.iter().any(|one| one.lives);
        let readers = family.0.iter().filter(|one| one.reads).count();
        prop_assert_eq!(readers, usize::from(lives), "{:?}", family);
    }
}
