//! Changes to header fields.

use http::header::SERVER;
use http::{HeaderName, HeaderValue};
use sluicegate_config::HeaderEdits;

use crate::http::exchange::{Fields, NO_SERVER};

/// Fields to remove, to set and to add, in this order.
#[derive(Debug, Default)]
pub(super) struct Edits {
    remove: Vec<HeaderName>,
    set: Fields,
    add: Fields,
}

impl Edits {
    /// Reads the fields of a configuration.
    ///
    /// # Errors
    /// A name or value cannot be sent; the configuration refuses these by the same rules.
    pub(super) fn new(edits: &HeaderEdits) -> Result<Edits, String> {
        let name = |name: &String| HeaderName::try_from(name).map_err(|_| name.clone());
        let fields = |list: &[(String, String)]| {
            let fields = list.iter().map(|(key, value)| {
                let value = HeaderValue::try_from(value).map_err(|_| value.clone())?;
                Ok((name(key)?, value))
            });
            fields.collect::<Result<Fields, String>>()
        };
        Ok(Edits {
            remove: edits.remove.iter().map(name).collect::<Result<_, _>>()?,
            set: fields(&edits.set)?,
            add: fields(&edits.add)?,
        })
    }

    /// Returns whether the edits change nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// Returns whether all lines of a field come from these edits.
    pub(super) fn sets(&self, name: &HeaderName) -> bool {
        self.set.iter().any(|(set, _)| set == name)
    }

    /// Returns whether these edits remove a field and add no line of it.
    pub(super) fn removes(&self, name: &HeaderName) -> bool {
        let mut added = self.set.iter().chain(&self.add);
        self.remove.contains(name) && !added.any(|(added, _)| added == name)
    }

    pub(super) fn apply(&self, fields: &mut Fields) {
        if !self.remove.is_empty() || !self.set.is_empty() {
            fields.retain(|(name, _)| !self.remove.contains(name) && !self.sets(name));
        }
        fields.extend(self.set.iter().chain(&self.add).cloned());
        if self.removes(&SERVER) {
            // The front would add its own.
            fields.push(NO_SERVER);
        }
    }
}
