//! Paths that upstreams get in place of the request's.

use crate::http::path::{CanonicalPath, PathError};

/// Path with placeholders that each request fills.
#[derive(Debug)]
pub(super) struct Rewrite(Vec<Part>);

#[derive(Debug)]
enum Part {
    Text(String),
    Path,
    Rest,
    /// Group of the regular expression that matched, from 1.
    Capture(usize),
}

impl Rewrite {
    /// Reads a path that the configuration has checked.
    pub(super) fn new(mut text: &str) -> Rewrite {
        let mut parts = Vec::new();
        while let Some((before, after)) = text.split_once('{') {
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            parts.push(Part::Text(before.to_owned()));
            let group = name.strip_prefix("capture:");
            parts.push(match (name, group.and_then(|group| group.parse().ok())) {
                (_, Some(group)) => Part::Capture(group),
                ("rest", None) => Part::Rest,
                _ => Part::Path,
            });
            text = behind;
        }
        parts.push(Part::Text(text.to_owned()));
        Rewrite(parts)
    }

    /// Returns the path for the upstream. `rest` is the path behind the route's prefix, and `capture` returns what a group
    /// matched, both in the spelling for upstreams.
    ///
    /// # Errors
    /// What the client sent makes another path of it: a dot segment, or an octet that is not whole.
    pub(super) fn apply<'a>(
        &self,
        path: &'a CanonicalPath,
        rest: &'a str,
        capture: impl Fn(usize) -> &'a str,
    ) -> Result<CanonicalPath, PathError> {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text,
            Part::Path => path.forward(0),
            Part::Rest => rest,
            Part::Capture(group) => capture(*group),
        });
        let text: String = parts.collect();
        let is_dots =
            |name: &str| matches!(&*name.replace("%2e", ".").replace("%2E", "."), "." | "..");
        if text.split('/').any(is_dots) {
            return Err(PathError::DotSegment);
        }
        CanonicalPath::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(rewrite: &str, path: &str, groups: &[&str]) -> Result<String, PathError> {
        let path = CanonicalPath::parse(path).unwrap();
        let rest = path.forward("/app".len());
        let capture = |group: usize| groups.get(group - 1).copied().unwrap_or_default();
        let path = Rewrite::new(rewrite).apply(&path, rest, capture)?;
        Ok(path.forward(0).to_owned())
    }

    #[test]
    fn placeholders_stand_for_parts_of_the_path() {
        for (rewrite, expected) in [
            ("/v2{rest}", "/v2/x%2By"),
            ("/v2/{rest}", "/v2/x%2By"),
            ("/edge{path}", "/edge/app/x%2By"),
            ("/{capture:2}/{capture:1}/", "/b/a/"),
            ("/index.php", "/index.php"),
        ] {
            let path = rewritten(rewrite, "/app/x%2By", &["a", "b"]);
            assert_eq!(path.unwrap(), expected, "{rewrite}");
        }
    }

    #[test]
    fn what_a_client_sends_leads_to_no_other_folder() {
        for groups in [[".", "."], ["%2", "e%2e"], ["", "../x"], ["%2", ""]] {
            let path = rewritten("/in/{capture:1}{capture:2}", "/app/x", &groups);
            assert!(path.is_err(), "{groups:?}: {path:?}");
        }
    }
}
