//! The sessions of a thread: the one that its next connection resumes, and those that the server sends.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use sluicegate_quic_client::SavedSession;

use crate::plan::Plan;

/// Sessions of a thread, which its connections share.
#[derive(Clone)]
pub(crate) struct Sessions {
    /// Session to resume: that of the file, or the newest one.
    next: Arc<Mutex<Option<Arc<SavedSession>>>>,
    /// New sessions are resumed (`--resume`).
    resumes_new: bool,
    /// Place of the first new session of all threads, if a file takes it.
    first: Option<Arc<OnceLock<Arc<SavedSession>>>>,
}

impl Sessions {
    pub(super) fn new(plan: &Plan) -> Sessions {
        let file = plan.session_file.as_ref();
        let session = file.and_then(|file| file.session.clone());
        Sessions {
            next: Arc::new(Mutex::new(session)),
            resumes_new: plan.options.resume,
            first: file.map(|file| Arc::clone(&file.first)),
        }
    }

    /// Returns the session that the next connection resumes.
    pub(super) fn next(&self) -> Option<Arc<SavedSession>> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.clone()
    }

    /// Returns whether a new session is of use.
    pub(super) fn are_kept(&self) -> bool {
        let is_first = |first: &Arc<OnceLock<_>>| first.get().is_none();
        self.resumes_new || self.first.as_ref().is_some_and(is_first)
    }

    /// Keeps a new session, if it is of use.
    pub(super) fn keep(&self, session: SavedSession) {
        let session = Arc::new(session);
        if let Some(first) = &self.first {
            first.get_or_init(|| Arc::clone(&session));
        }
        if self.resumes_new {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            *next = Some(session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_session_is_resumed_and_the_first_one_stored() {
        for resumes_new in [true, false] {
            let sessions =
                Sessions { next: Arc::default(), resumes_new, first: Some(Arc::default()) };
            assert!(sessions.are_kept());
            for number in 1..=3 {
                sessions.keep(SavedSession::of_tls(vec![number]));
            }
            assert_eq!(sessions.are_kept(), resumes_new);
            let of = |number| Arc::new(SavedSession::of_tls(vec![number]));
            assert_eq!(sessions.next(), resumes_new.then(|| of(3)));
            let first = sessions.first.as_ref().and_then(|first| first.get());
            assert_eq!(first, Some(&of(1)));
        }
    }
}
