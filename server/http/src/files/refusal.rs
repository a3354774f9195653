//! Responses to paths that name no file.

use http::HeaderValue;
use http::header::LOCATION;

use super::path::PathRefusal;
use crate::exchange::RequestHead;
use crate::representation::ResponsePlan;

/// Returns the response to a path that names no file.
pub(crate) fn refuse(refusal: PathRefusal) -> ResponsePlan {
    match refusal {
        PathRefusal::Malformed => ResponsePlan::plain(400, "400 not a path\n"),
        PathRefusal::NotFound => ResponsePlan::plain(404, "404 not found\n"),
    }
}

/// Returns a redirect to the same path with a slash at the end, which relative names in an index need. The target is always on this
/// host: a canonical path begins neither with `//` nor with `/\`.
pub(crate) fn redirect_to_folder(head: &RequestHead) -> ResponsePlan {
    let mut place = head.path.forward(0).to_owned();
    if !place.ends_with('/') {
        place.push('/');
    }
    if let Some(query) = &head.query {
        place.push('?');
        place.push_str(query);
    }
    let Ok(place) = HeaderValue::try_from(place) else {
        return refuse(PathRefusal::Malformed);
    };
    let mut plan = ResponsePlan::plain(301, "301 this is a folder\n");
    plan.fields.push((LOCATION, place));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::test_front::head;
    use crate::path::CanonicalPath;
    use crate::target::Query;

    #[test]
    fn a_folder_is_a_place_of_this_host() {
        for (path, query, place) in [
            ("/a", None, "/a/"),
            ("/a/b", Some(""), "/a/b/?"),
            ("/a%20b", Some("x=//y"), "/a%20b/?x=//y"),
            ("//other.example/a", None, "/other.example/a/"),
            ("///a", None, "/a/"),
        ] {
            let mut head = head("GET", "/a.txt", &[]);
            head.path = CanonicalPath::parse(path).unwrap();
            head.query = query.map(Query::new);
            let plan = redirect_to_folder(&head);
            assert_eq!(plan.status, 301);
            let (_, found) = plan.fields.iter().find(|(name, _)| name == LOCATION).unwrap();
            assert_eq!(found, place, "{path}");
        }
    }
}
