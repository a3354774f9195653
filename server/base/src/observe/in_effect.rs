//! A writer that a reload may replace, and those before it that are still used.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A writer with a thread of its own.
pub(super) trait ReplaceableWriter {
    /// Returns whether two writers are the same one, or write by the same thread.
    fn is_same(&self, other: &Self) -> bool;

    /// Ends the thread of a writer that nobody uses any more, and returns whether it has written all and ended.
    fn has_ended(writer: &Arc<Self>) -> bool;

    /// Writes what was handed over and ends the thread, within `limit`.
    fn end(&self, limit: Duration);
}

/// The writer in effect with its settings, and those before it.
#[derive(Debug)]
pub(super) struct InEffect<S, W>(Mutex<State<S, W>>);

#[derive(Debug)]
struct State<S, W> {
    current: Option<(S, Arc<W>)>,
    retired: Vec<Arc<W>>,
}

impl<S, W> Default for InEffect<S, W> {
    fn default() -> InEffect<S, W> {
        InEffect(Mutex::new(State { current: None, retired: Vec::new() }))
    }
}

impl<S, W: ReplaceableWriter> InEffect<S, W> {
    /// Returns what `look` makes of the writer in effect and its settings; `None` if there is none, or of it.
    pub(super) fn look<T>(&self, look: impl FnOnce(&S, &Arc<W>) -> Option<T>) -> Option<T> {
        let state = self.state();
        let (settings, writer) = state.current.as_ref()?;
        look(settings, writer)
    }

    /// Returns the writer in effect.
    pub(super) fn get(&self) -> Option<Arc<W>> {
        self.look(|_, writer| Some(Arc::clone(writer)))
    }

    /// Puts a writer into effect, or none. The one before goes on until nobody uses it.
    pub(super) fn set(&self, next: Option<(S, Arc<W>)>) {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.current, next);
        let current = state.current.as_ref().map(|(_, writer)| writer);
        if let Some((_, before)) = before
            && !current.is_some_and(|current| current.is_same(&before))
        {
            state.retired.push(before);
        }
    }

    /// Returns the sum of a figure over all writers.
    pub(super) fn sum(&self, figure: impl Fn(&W) -> usize) -> usize {
        self.state().writers().map(|writer| figure(writer)).sum()
    }

    /// Returns the number of writers that were replaced and have not ended.
    #[cfg(test)]
    pub(super) fn retired(&self) -> usize {
        self.state().retired.len()
    }

    /// Ends the threads of previous writers that nobody uses any more, and drops those that have ended.
    pub(super) fn drop_unused(&self) {
        self.state().retired.retain(|writer| !W::has_ended(writer));
    }

    /// Writes what was handed over and ends the threads, each within `limit`.
    pub(super) fn shutdown(&self, limit: Duration) {
        for writer in self.state().writers() {
            writer.end(limit);
        }
    }

    fn state(&self) -> MutexGuard<'_, State<S, W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S, W> State<S, W> {
    fn writers(&self) -> impl Iterator<Item = &Arc<W>> {
        let current = self.current.iter().map(|(_, writer)| writer);
        self.retired.iter().chain(current)
    }
}
