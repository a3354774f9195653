//! Site of a route.

use std::sync::Arc;

use super::{HostPattern, RouteSettings};
use crate::error::Error;
use crate::field::Field;
use crate::print;
use crate::schema::Key;
use crate::value::Item;

/// Site of a route: its name, and what the route takes from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteSite {
    name: Option<String>,
    inherited: Option<Arc<Inherited>>,
}

/// Hosts and settings in effect of a route with a site.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inherited {
    hosts: Vec<HostPattern>,
    settings: RouteSettings,
    /// Keys that the route has from its site, wholly or in part.
    keys: Vec<&'static str>,
}

impl RouteSite {
    /// Returns the name of the site; `None` if the route belongs to none.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the hosts in effect; `None` if the route belongs to no site.
    pub(super) fn hosts(&self) -> Option<&[HostPattern]> {
        self.inherited.as_ref().map(|inherited| &*inherited.hosts)
    }

    /// Returns the settings in effect; `None` if the route belongs to no site.
    pub(super) fn settings(&self) -> Option<&RouteSettings> {
        self.inherited.as_ref().map(|inherited| &inherited.settings)
    }

    /// Takes hosts and settings into effect, and the keys that the route has from its site.
    pub(super) fn inherit(
        &mut self,
        hosts: Vec<HostPattern>,
        settings: RouteSettings,
        keys: Vec<&'static str>,
    ) {
        self.inherited = Some(Arc::new(Inherited { hosts, settings, keys }));
    }

    /// Returns the keys that the route has from its site, wholly or in part.
    pub fn inherited_keys(&self) -> &[&'static str] {
        let inherited = self.inherited.as_ref();
        inherited.map_or(&[], |inherited| &inherited.keys)
    }
}

impl Field for RouteSite {
    fn read(item: &Item<'_>) -> Result<Self, Error> {
        Ok(Self { name: Some(item.word()?), inherited: None })
    }

    fn unset() -> Option<Self> {
        Some(Self::default())
    }

    fn print(&self, _: &Key) -> Option<String> {
        self.name().map(print::text)
    }
}
