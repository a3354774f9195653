//! Health of a server by its checks: it changes only after several in a row.

use crate::settings::HealthSettings;

/// Health of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Health {
    is_up: bool,
    is_checked: bool,
    /// Checks in a row that contradict `is_up`.
    contrary: u64,
}

impl Health {
    /// Returns the health of a server that nobody has checked, which counts as up.
    pub(crate) fn new() -> Health {
        Health { is_up: true, is_checked: false, contrary: 0 }
    }

    /// Records a check. Returns the new health if it has changed. The first check decides alone.
    pub(crate) fn on_check(&mut self, succeeded: bool, settings: &HealthSettings) -> Option<bool> {
        let is_first = !std::mem::replace(&mut self.is_checked, true);
        if succeeded == self.is_up {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        let needed = if self.is_up { settings.falls } else { settings.rises };
        if !is_first && self.contrary < needed {
            return None;
        }
        (self.is_up, self.contrary) = (succeeded, 0);
        Some(succeeded)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SETTINGS: HealthSettings = HealthSettings {
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        rises: 2,
        falls: 3,
    };

    /// Returns the changes that these checks make: `+` succeeds, `-` fails.
    fn changes(checks: &str) -> Vec<(usize, bool)> {
        let mut health = Health::new();
        let made = checks.chars().enumerate().filter_map(|(index, check)| {
            health.on_check(check == '+', &SETTINGS).map(|is_up| (index, is_up))
        });
        made.collect()
    }

    #[test]
    fn it_takes_several_checks_in_a_row_to_change() {
        assert_eq!(changes("+---"), [(3, false)]);
        assert_eq!(changes("+--+--+--+"), []);
        assert_eq!(changes("+---+-++"), [(3, false), (7, true)]);
    }

    #[test]
    fn the_first_check_decides_alone() {
        assert_eq!(changes("-"), [(0, false)]);
        assert_eq!(changes("-++"), [(0, false), (2, true)]);
        assert_eq!(changes("+"), []);
    }
}
