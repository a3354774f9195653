//! A request on its way to a handler and back.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use sluicegate_base::observe::account::Wait;

use crate::auth::Credentials;
use crate::exchange::compress;
use crate::exchange::message::{Head, Request};
use crate::exchange::{Fields, Opaque, Reply, RequestHead};
use crate::files::Vacancy;
use crate::identification::Identification;
use crate::peer::Peer;
use crate::route::{FileMiss, FilledEdits, Route, Site, UnverifiedRequest};

/// A request on its way to a handler and back.
#[derive(Debug)]
pub struct RoutedRequest {
    pub(super) route: Arc<Route>,
    /// Place in memory for the file.
    vacancy: Option<Vacancy>,
    /// Credentials to verify.
    pub(super) credentials: Option<Credentials>,
    /// Changes to the response that depend on the request.
    response_edits: Option<FilledEdits>,
    identification: Arc<Identification>,
    /// The request asks for a tunnel, whose bytes no limit of a body bounds.
    is_tunnel: bool,
}

impl RoutedRequest {
    pub(super) fn new(
        route: Arc<Route>,
        vacancy: Option<Vacancy>,
        is_tunnel: bool,
        site: &Site,
    ) -> RoutedRequest {
        RoutedRequest {
            route,
            vacancy,
            credentials: None,
            response_edits: None,
            identification: Arc::clone(site.identification()),
            is_tunnel,
        }
    }

    /// Returns the handler for the origin thread. A route takes the credentials that it asks for out of the request.
    fn handler(&mut self, head: &mut RequestHead) -> Opaque {
        let route = Arc::clone(&self.route);
        let Some(credentials) = self.credentials.take() else {
            return match self.vacancy.take() {
                Some(vacancy) => Opaque::new(Arc::new(FileMiss { route, vacancy })),
                None => Opaque::new(route),
            };
        };
        if route.access().basic_auth().is_some_and(|auth| !auth.forward) {
            head.headers.retain(|(name, _)| name != AUTHORIZATION);
        }
        Opaque::new(Arc::new(UnverifiedRequest { route, credentials }))
    }

    /// Returns the largest request body, bytes.
    pub fn max_body(&self) -> u64 {
        if self.is_tunnel { u64::MAX } else { self.route.max_request_body }
    }

    /// Returns whether the request asks for a tunnel. One may be silent in both directions, and its handler bounds for how long.
    pub fn is_tunnel(&self) -> bool {
        self.is_tunnel
    }

    /// Returns what its handler waits for at first.
    pub fn wait(&self) -> Wait {
        if self.credentials.is_some() { Wait::Authentication } else { self.route.action.wait() }
    }

    /// Returns the request for the handler, with the route's changes to its fields.
    pub fn request(
        &mut self,
        mut head: RequestHead,
        peer: Peer,
        content_length: Option<u64>,
        has_body: bool,
    ) -> Box<Request> {
        let peer = peer.of_request(&head.headers);
        if self.route.forwards() {
            self.identification.complete(&mut head.headers);
            self.identification.name_upstream_call(&mut head.headers);
        }
        self.response_edits = self.route.fill_response(&head);
        let user = self.credentials.as_ref().map(|claimed| claimed.user.clone());
        let handler = self.handler(&mut head);
        self.route.edit_request(&mut head, &peer, user.as_deref());
        Box::new(Request {
            head,
            peer,
            handler,
            timeout: self.route.timeout,
            content_length,
            has_body,
            wants_report: false,
            reads_ranges: false,
        })
    }

    /// Gives an error response of the server itself the route's page and its changes to fields. A front calls it for a response in
    /// place of the handler's.
    pub fn refuse(&self, reply: &mut Reply) {
        self.route.error_pages().apply(reply);
        let (status, filled) = (reply.status, self.response_edits.clone());
        self.edit(status, reply.headers.edit(), filled);
    }

    /// Applies the route's changes to the head of the handler's response.
    pub fn edit_response(&mut self, head: &mut Head) {
        let filled = self.response_edits.take();
        // The handshake of a tunnel succeeds with 101 over HTTP/1.1 alone, and has the same fields over each version.
        let status = if head.status == 101 { 200 } else { head.status };
        self.edit(status, &mut head.fields, filled);
    }

    fn edit(&self, status: u16, fields: &mut Fields, filled: Option<FilledEdits>) {
        let varies = self.route.compression().is_some() && compress::varies(fields);
        self.route.edit_response(status, fields, filled);
        if varies {
            // Otherwise a cache would give every client the encoding of the first.
            compress::add_vary(fields);
        }
    }
}
