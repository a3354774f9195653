//! Phases of a run with a duration, in the words of h2load.

use super::Worker;
use crate::context::Line;

impl Worker<'_> {
    fn say(&self, line: String) {
        self.cx.say(Line::Report(line));
    }

    fn is_timed(&self) -> bool {
        self.cx.plan.options.duration.is_some()
    }

    /// Reports the begin of the warm-up, which a run with a duration always has, if only for a moment.
    pub(super) fn report_warm_up(&self) {
        if self.is_timed() {
            let thread = self.share.thread;
            self.say(format!("Warm-up started for thread #{thread}."));
        }
    }

    /// Reports the end of the warm-up, once.
    pub(super) fn report_main(&mut self) {
        if self.is_timed() && self.cx.counts() && !std::mem::replace(&mut self.in_main, true) {
            let thread = self.share.thread;
            self.say(format!("Warm-up phase is over for thread #{thread}."));
            self.say(format!("Main benchmark duration is started for thread #{thread}."));
        }
    }

    /// Reports that the duration is over, if it is.
    pub(super) fn report_over(&self) {
        if self.ends_at().is_some_and(|end| end <= self.cx.now) {
            let thread = self.share.thread;
            self.say(format!(
                "Main benchmark duration is over for thread #{thread}. Stopping all clients."
            ));
        }
    }

    /// Reports that the connections are closed, if the duration is over.
    pub(super) fn report_stopped(&self) {
        if self.ends_at().is_some_and(|end| end <= self.cx.now) {
            let thread = self.share.thread;
            self.say(format!("Stopped all clients for thread #{thread}"));
        }
    }
}
