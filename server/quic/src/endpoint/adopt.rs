//! Adoption of another configuration.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_base::secrets::Secrets;
use sluicegate_config::{Limits, Quic};
use sluicegate_dataplane::ListenerId;

use super::Endpoint;
use crate::application::Application;
use crate::reset::ResetTokens;
use crate::settings::{Listener, Tracing};
use crate::token::{NewTokens, RetryTokens};

/// The part of a configuration that an endpoint adopts while it runs.
pub struct EndpointConfig<A: Application> {
    /// Listeners by their identifiers in the dataplane.
    pub listeners: HashMap<ListenerId, Listener<A>>,
    /// Limits of connections and memory.
    pub limits: Limits,
    /// Settings of QUIC.
    pub quic: Quic,
    /// Secrets, of the generation that the endpoint has.
    pub secrets: Arc<Secrets>,
    /// Sampling of traces, where it is on.
    pub tracing: Option<Tracing>,
    /// Time that connections of removed listeners get for their requests.
    pub drain_timeout: Duration,
}

impl<A: Application> Endpoint<A> {
    /// Serves by another configuration from now on. Open connections keep the transport that they began with.
    pub fn adopt(&mut self, mut config: EndpointConfig<A>) {
        let settings = &mut self.settings;
        config.listeners.iter_mut().for_each(|(id, listener)| {
            if let Some(before) = settings.listeners.get_mut(id) {
                listener.selection.keep_learnt(&mut before.selection);
            }
        });
        let before = std::mem::replace(&mut settings.listeners, config.listeners);
        self.recorders.adopt_tracing(config.tracing.as_ref());
        settings.tracing = config.tracing;
        settings.limits = config.limits;
        settings.quic = config.quic;
        settings.secrets = config.secrets;
        self.retire_listeners(before, config.drain_timeout);
        let settings = &self.settings;
        let (secrets, quic) = (&settings.secrets, &settings.quic);
        self.rates.adopt(quic);
        self.initials.set_retries(quic.retries_per_second);
        self.retry_tokens = RetryTokens::new(secrets, quic.retry_token_lifetime, self.cid_len);
        self.new_tokens = NewTokens::new(secrets, &settings.used_tokens, quic.new_token_lifetime);
        self.reset_tokens = ResetTokens::new(secrets);
    }
}
