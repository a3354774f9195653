//! A future whose wait the front is told of.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use sluicegate_base::observe::account::Wait;

use super::Reporter;

pin_project! {
    /// Future of [`Reporter::during`].
    pub struct Waiting<'a, F> {
        reporter: &'a Reporter,
        wait: Wait,
        then: Wait,
        is_told: bool,
        #[pin]
        future: F,
    }
}

impl<'a, F> Waiting<'a, F> {
    pub(super) fn new(reporter: &'a Reporter, wait: Wait, then: Wait, future: F) -> Self {
        Waiting { reporter, wait, then, is_told: false, future }
    }
}

impl<F: Future> Future for Waiting<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = this.future.poll(cx);
        match polled {
            Poll::Pending if !std::mem::replace(this.is_told, true) => {
                this.reporter.waits(*this.wait);
            }
            Poll::Ready(_) if *this.is_told => this.reporter.waits(*this.then),
            _ => {}
        }
        polled
    }
}
