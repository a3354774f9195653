//! Paths that upstreams get in place of the request's.

use sluicegate_config::Template;

use super::values::Values;
use crate::path::{CanonicalPath, PathError};

/// Path with placeholders that each request fills.
#[derive(Debug)]
pub(super) struct Rewrite(Template);

impl Rewrite {
    /// Reads a path that the configuration has checked.
    pub(super) fn new(text: &str) -> Rewrite {
        Rewrite(Template::new(text))
    }

    /// Returns the path for the upstream.
    ///
    /// # Errors
    /// What the client sent makes another path of it: a dot segment, or an octet that is not whole.
    pub(super) fn apply(&self, values: &Values<'_>) -> Result<CanonicalPath, PathError> {
        let text = values.text(&self.0);
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
    use sluicegate_config::PathPattern;

    use super::super::matching::PathMatch;
    use super::*;
    use crate::exchange::test_front::head;

    fn rewritten(pattern: PathPattern, path: &str, rewrite: &str) -> Result<String, PathError> {
        let pattern = PathMatch::compile(&pattern).unwrap();
        let head = head("GET", path, &[]);
        let path = Rewrite::new(rewrite).apply(&Values::new(&head, &pattern))?;
        Ok(path.forward(0).to_owned())
    }

    #[test]
    fn placeholders_stand_for_parts_of_the_path() {
        let prefix = PathPattern::Prefix("/app".to_owned());
        let regex = PathPattern::Regex("^/(a)pp/(.*)".to_owned());
        for (pattern, rewrite, expected) in [
            (&prefix, "/v2{rest}", "/v2/x%2By"),
            (&prefix, "/v2/{rest}", "/v2/x%2By"),
            (&prefix, "/edge{path}", "/edge/app/x%2By"),
            (&regex, "/{capture:2}/{capture:1}/", "/x%2By/a/"),
            (&prefix, "/index.php", "/index.php"),
        ] {
            let path = rewritten(pattern.clone(), "/app/x%2By", rewrite);
            assert_eq!(path.unwrap(), expected, "{rewrite}");
        }
    }

    #[test]
    fn what_a_client_sends_leads_to_no_other_folder() {
        let pattern = PathPattern::Regex("^/(.*?)-(.*)".to_owned());
        for path in ["/.-.", "/-..", "/..-", "/.-./x", "/-../x", "/x/.-./y", "/-./x", "/%2D../x"] {
            let path = rewritten(pattern.clone(), path, "/in/{capture:1}{capture:2}");
            assert!(path.is_err(), "{path:?}");
        }
    }
}
