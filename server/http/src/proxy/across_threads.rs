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
pub(super) struct SharedState<T>(Arc<T>);

impl<T> SharedState<T> {
    pub(super) fn new(state: T) -> SharedState<T> {
        SharedState(Arc::new(state))
    }
}

impl<T> Clone for SharedState<T> {
    fn clone(&self) -> SharedState<T> {
        SharedState(Arc::clone(&self.0))
    }
}

impl<T> Deref for SharedState<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for SharedState<T> {
    fn eq(&self, _: &SharedState<T>) -> bool {
        true
    }
}

impl<T> Eq for SharedState<T> {}

impl<T> PartialOrd for SharedState<T> {
    fn partial_cmp(&self, other: &SharedState<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for SharedState<T> {
    fn cmp(&self, _: &SharedState<T>) -> Ordering {
        Ordering::Equal
    }
}
