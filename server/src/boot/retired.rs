//! Parts of previous snapshots, until nobody uses them.

use std::sync::Arc;

use sluicegate_base::tls::Alternatives;
use sluicegate_http::route::Site;

use crate::snapshot::ConfigSnapshot;

/// Parts of previous snapshots that workers, connections or requests may still use. They are dropped on the main thread, after
/// their last user: to free a thousand certificates would delay a worker by tens of milliseconds.
#[derive(Default)]
pub(super) struct Retired {
    certificates: Vec<Alternatives>,
    sites: Vec<Arc<Site>>,
}

impl Retired {
    /// Takes the parts of `previous` that `current` does not share.
    pub(super) fn take(&mut self, previous: &ConfigSnapshot, current: &ConfigSnapshot) {
        self.sites.push(Arc::clone(&previous.site));
        for bound in &previous.bound_listeners {
            let others = &bound.settings.identities.others;
            let in_use = current.bound_listeners.iter();
            let known = in_use.map(|bound| &bound.settings.identities.others);
            if !known.chain(&self.certificates).any(|one| one.is(others)) {
                self.certificates.push(others.clone());
            }
        }
    }

    /// Drops what nobody else uses any more, and the files in memory that only such sites had. `current` is the site in effect.
    pub(super) fn drop_unused(&mut self, current: &Site) {
        self.certificates.retain(|one| !one.is_unused());
        self.sites.retain(|site| {
            let is_used = Arc::strong_count(site) > 1;
            if !is_used {
                current.drop_files_of(site);
            }
            is_used
        });
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_cc::Registry;
    use sluicegate_config::Config;
    use sluicegate_dataplane::{ListenerId, Payloads};

    use super::*;
    use crate::snapshot::{BoundAddress, BoundListener, ListenerSettings, Protocols};
    use sluicegate_base::observe::request_logs::RequestLogWriters;
    use sluicegate_base::secrets::Secrets;
    use sluicegate_base::tls::{Identities, Identity, ListenerTls};
    use sluicegate_quic::congestion::selection::Selection;
    use sluicegate_quic::settings::Lease;

    /// What a worker drops when it takes up the next snapshot, or at the end of a connection, is never the last of it.
    #[test]
    fn certificates_of_a_previous_configuration_are_freed_by_the_main_thread() {
        let quic = Config::embedded().quic;
        let limits = Config::embedded().limits;
        let identities = [(); 2].map(|()| Identity::self_signed().unwrap());
        let secrets = Arc::new(Secrets::in_memory());
        let make = |others: &[Identity], before: &Alternatives| {
            let tls =
                ListenerTls { listener: "main", secrets: &secrets, quic: &quic, limits: &limits };
            tls.alternatives(others, before).unwrap()
        };
        let snapshot = |generation, others: &Alternatives| ConfigSnapshot {
            generation,
            site: Arc::new(Site::compile(&[], &limits).unwrap()),
            limits: limits.clone(),
            quic: quic.clone(),
            secrets: Arc::clone(&secrets),
            bound_listeners: [0, 1]
                .map(|id| BoundListener {
                    name: "main".to_owned(),
                    at: BoundAddress {
                        id: ListenerId(id),
                        group: "a".to_owned(),
                        local: ([127, 0, 0, 1], 1).into(),
                        configured: ([127, 0, 0, 1], 1).into(),
                        lease: Lease::default(),
                        protocols: Protocols::Quic,
                        payloads: Payloads::default(),
                    },
                    settings: ListenerSettings {
                        trusted_proxies: Arc::default(),
                        selection: Selection::of(
                            &Config::embedded().listeners[0],
                            &Registry::builtin(),
                            [0; 32],
                            None,
                        )
                        .unwrap(),
                        identities: Arc::new(Identities {
                            first: identities[0].clone(),
                            others: others.clone(),
                            expiries: Vec::new(),
                        }),
                        ecn: true,
                    },
                })
                .into(),
            logs: RequestLogWriters::default(),
            tracing: None,
            drain_timeout: std::time::Duration::ZERO,
        };
        let count = |retired: &Retired| (retired.certificates.len(), retired.sites.len());
        let first = make(&identities, &Alternatives::default());
        let mut retired = Retired::default();
        let (old, same) = (snapshot(1, &first), snapshot(2, &make(&identities, &first)));
        retired.take(&old, &same);
        assert_eq!(count(&retired), (0, 1), "the certificates are still those");
        drop(old);
        retired.drop_unused(&same.site);
        assert_eq!(count(&retired), (0, 0));
        let changed = snapshot(3, &make(&identities[1..], &first));
        drop(first);
        let (in_a_connection, of_a_request) =
            (same.bound_listeners[0].settings.identities.others.clone(), Arc::clone(&same.site));
        retired.take(&same, &changed);
        drop(same);
        retired.drop_unused(&changed.site);
        assert_eq!(count(&retired), (1, 1), "each once");
        drop((in_a_connection, of_a_request));
        assert_eq!(count(&retired), (1, 1), "still there");
        retired.drop_unused(&changed.site);
        assert_eq!(count(&retired), (0, 0));
    }
}
