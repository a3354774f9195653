//! State of pools and upstreams that all origin threads have in common.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::Arc;

use super::slots::Slots;
use super::verdict::Verdict;

/// State of an upstream that all origin threads have in common.
#[derive(Debug)]
pub(super) struct UpstreamState {
    /// Slots of the requests that it handles at a time.
    pub(super) slots: Slots,
    /// Verdict of its health checks.
    pub(super) verdict: Verdict,
}

/// State beside a definition, and no part of it: definitions that differ in it alone are equal.
#[derive(Debug)]
pub(super) struct Beside<T>(Arc<T>);

impl<T> Beside<T> {
    pub(super) fn new(state: T) -> Beside<T> {
        Beside(Arc::new(state))
    }
}

impl<T> Clone for Beside<T> {
    fn clone(&self) -> Beside<T> {
        Beside(Arc::clone(&self.0))
    }
}

impl<T> Deref for Beside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Beside<T> {
    fn eq(&self, _: &Beside<T>) -> bool {
        true
    }
}

impl<T> Eq for Beside<T> {}

impl<T> PartialOrd for Beside<T> {
    fn partial_cmp(&self, other: &Beside<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Beside<T> {
    fn cmp(&self, _: &Beside<T>) -> Ordering {
        Ordering::Equal
    }
}
