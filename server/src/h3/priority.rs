//! Priorities of responses (RFC 9218).

use http::{HeaderName, HeaderValue};

/// Number that quiche adds to an urgency to order streams of requests after its own.
const ENGINE_OFFSET: u8 = 124;

/// Urgency of what goes last.
pub(super) const LOWEST: u8 = 7;

/// Priority of a response; a lower one goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Priority {
    /// Urgency from 0 to 7; 0 goes first. Of [`Priority::SHARED`] 8.
    pub(super) urgency: u8,
    /// The client can use parts of the response, so it shares with others of its urgency.
    pub(super) incremental: bool,
}

/// Parameters of a `priority` field that are present and valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parameters {
    urgency: Option<u8>,
    incremental: Option<bool>,
}

impl Default for Priority {
    fn default() -> Self {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Place of the responses that share the connection instead of keeping to the order; no field names it.
    pub(super) const SHARED: Priority = Priority { urgency: LOWEST + 1, incremental: true };

    /// Reads a `priority` field or a PRIORITY_UPDATE frame. Parameters that are missing, unknown or out of bounds keep their
    /// defaults (RFC 9218 §4), as all do if the value is no dictionary.
    pub(super) fn parse(value: &[u8]) -> Priority {
        Parameters::parse(value).over(Priority::default())
    }

    /// Returns whether this is the place of responses that share.
    pub(super) fn is_shared(self) -> bool {
        self == Priority::SHARED
    }

    /// Sets the priority of a stream whose response has begun. What shares is sent after what does not.
    pub(super) fn apply(self, conn: &mut quiche::Connection, stream: u64) {
        let urgency = self.urgency.min(LOWEST) + ENGINE_OFFSET;
        // The stream may be gone, and then it needs no priority.
        let _ = conn.stream_priority(stream, urgency, self.incremental);
    }
}

impl Parameters {
    /// Reads a `priority` field, of which invalid parameters are left out, and all if it is no dictionary.
    pub(super) fn parse(value: &[u8]) -> Parameters {
        let mut parameters = Parameters::default();
        let Ok(text) = std::str::from_utf8(value) else {
            return parameters;
        };
        let Ok(dictionary) = sfv::Parser::new(text).parse::<sfv::Dictionary>() else {
            return parameters;
        };
        if let Some(sfv::ListEntry::Item(item)) = dictionary.get("u")
            && let Some(urgency) = item.bare_item.as_integer()
        {
            let urgency = u8::try_from(i64::from(urgency)).ok();
            parameters.urgency = urgency.filter(|urgency| *urgency <= LOWEST);
        }
        if let Some(sfv::ListEntry::Item(item)) = dictionary.get("i") {
            parameters.incremental = item.bare_item.as_boolean();
        }
        parameters
    }

    /// Reads the `priority` field of a message, whose lines count as one list; `None` if there is none.
    pub(super) fn of(fields: &[(HeaderName, HeaderValue)]) -> Option<Parameters> {
        let lines = || {
            let lines = fields.iter().filter(|(name, _)| name == "priority");
            lines.map(|(_, value)| value.as_bytes())
        };
        let first = lines().next()?;
        if lines().nth(1).is_none() {
            return Some(Parameters::parse(first));
        }
        let all: Vec<&[u8]> = lines().collect();
        Some(Parameters::parse(&all.join(&b',')))
    }

    /// Returns a priority with these parameters in place of its own (RFC 9218 §8).
    pub(super) fn over(self, priority: Priority) -> Priority {
        Priority {
            urgency: self.urgency.unwrap_or(priority.urgency),
            incremental: self.incremental.unwrap_or(priority.incremental),
        }
    }
}

impl From<Priority> for quiche::h3::Priority {
    fn from(priority: Priority) -> quiche::h3::Priority {
        quiche::h3::Priority::new(priority.urgency.min(LOWEST), priority.incremental)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(urgency: u8, incremental: bool) -> Priority {
        Priority { urgency, incremental }
    }

    #[test]
    fn invalid_parameters_of_a_priority_keep_their_defaults() {
        for (text, expected) in [
            ("", at(3, false)),
            ("u=0", at(0, false)),
            ("u=5, i", at(5, true)),
            ("i=?0,u=7", at(7, false)),
            ("u=8", at(3, false)),
            ("u=-1", at(3, false)),
            ("u=1.5", at(3, false)),
            ("u=\"1\", i=1", at(3, false)),
            ("u=1;x=2, i;y, z=(1 2)", at(1, true)),
            ("u=1,,", at(3, false)),
            ("U=1", at(3, false)),
        ] {
            assert_eq!(Priority::parse(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(Priority::parse(b"u=1, \xff"), at(3, false));
    }

    #[test]
    fn parameters_of_a_response_replace_those_of_its_request() {
        let requested = at(1, true);
        for (text, expected) in [
            ("", at(1, true)),
            ("u=7", at(7, true)),
            ("i=?0", at(1, false)),
            ("u=5, i", at(5, true)),
            ("u=9, i=?0", at(1, false)),
            ("no dictionary", at(1, true)),
        ] {
            let merged = Parameters::parse(text.as_bytes()).over(requested);
            assert_eq!(merged, expected, "{text:?}");
        }
    }

    #[test]
    fn lines_of_a_field_are_one_dictionary() {
        let line = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
        assert_eq!(Parameters::of(&[line("etag", "u=1")]), None);
        let lines = [line("priority", "u=1"), line("etag", "u=2"), line("priority", "i, u=5")];
        let merged = Parameters::of(&lines).map(|parameters| parameters.over(Priority::default()));
        assert_eq!(merged, Some(at(5, true)));
    }
}
