//! The older process's side of an upgrade, as a pure machine: what has happened, and what is to be done next.

/// Progress of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The newer process starts.
    Starting,
    /// The newer one gets new connections from this one, which waits for its open handshakes.
    Forwarding,
    /// Nobody reads: the newer one was told to.
    Changing,
    /// The newer one reads, and this one drains.
    Draining,
    /// So it does, and a process that is newer still reads.
    Passed,
}

/// Something that has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The newer process serves, with connection IDs of this generation.
    Ready(u8),
    /// No handshake is open here, or they have had their time.
    HandshakesDone,
    /// The newer one reads.
    Reading,
    /// The newer one has left the service to another.
    Replaced,
    /// The newer one has ended.
    Gone,
}

/// Something to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Forward datagrams of the newer process, and leave new connections to it.
    Forward(u8),
    /// Stop reading, and then tell the newer one to read.
    Change,
    /// Drain, and end.
    Drain,
    /// Go on as before: the upgrade has failed.
    Undo,
    /// Read again, for the connections that are left: the newer one is gone.
    ReadAgain,
    /// Stop: the way to the process that reads is gone.
    Stop,
    /// Nothing.
    Nothing,
}

impl Stage {
    /// Returns what to do, and goes on. `None` as the next stage: there is no upgrade any more.
    #[must_use]
    pub(crate) fn on(self, news: News) -> (Option<Stage>, Action) {
        match (self, news) {
            (Stage::Starting, News::Ready(generation)) => {
                (Some(Stage::Forwarding), Action::Forward(generation))
            }
            (Stage::Forwarding, News::HandshakesDone) => (Some(Stage::Changing), Action::Change),
            (Stage::Changing, News::Reading) => (Some(Stage::Draining), Action::Drain),
            (Stage::Draining, News::Replaced) => (Some(Stage::Passed), Action::Nothing),
            (Stage::Passed, News::Reading) => (Some(Stage::Draining), Action::Nothing),
            (Stage::Draining, News::Gone) => (None, Action::ReadAgain),
            // Two that read the same sockets would take each other's datagrams for a stranger's.
            (Stage::Passed, News::Gone) => (None, Action::Stop),
            (Stage::Starting | Stage::Forwarding | Stage::Changing, News::Gone) => {
                (None, Action::Undo)
            }
            // A process that says things out of order changes nothing.
            _ => (Some(self), Action::Nothing),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_upgrade_goes_through_its_stages() {
        let mut stage = Stage::Starting;
        let mut actions = Vec::new();
        for news in [News::Ready(7), News::HandshakesDone, News::Reading] {
            let (next, action) = stage.on(news);
            stage = next.unwrap();
            actions.push(action);
        }
        assert_eq!(actions, [Action::Forward(7), Action::Change, Action::Drain]);
        assert_eq!(stage.on(News::Gone), (None, Action::ReadAgain));
    }

    fn any_news() -> impl Strategy<Value = News> {
        prop_oneof![
            (0..64u8).prop_map(News::Ready),
            Just(News::HandshakesDone),
            Just(News::Reading),
            Just(News::Replaced),
            Just(News::Gone),
        ]
    }

    proptest! {
        /// In any order of news somebody reads, or was told to; and a process drains only once the other one reads.
        #[test]
        fn somebody_reads_at_all_times(all in proptest::collection::vec(any_news(), 0..40)) {
            let (mut stage, mut reads, mut drains) = (Some(Stage::Starting), true, false);
            for news in all {
                let Some(current) = stage else { break };
                let (next, action) = current.on(news);
                match action {
                    Action::Change => reads = false,
                    Action::Undo | Action::ReadAgain => reads = true,
                    Action::Drain => {
                        prop_assert!(news == News::Reading && !reads);
                        drains = true;
                    }
                    Action::Stop => prop_assert!(drains),
                    Action::Forward(_) | Action::Nothing => {}
                }
                stage = next;
            }
            let told = matches!(stage, Some(Stage::Changing | Stage::Draining | Stage::Passed));
            prop_assert!(reads || told || stage.is_none());
            prop_assert!(!drains || !matches!(stage, Some(Stage::Starting | Stage::Forwarding)));
        }
    }
}
