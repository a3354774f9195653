//! Requests that an upstream may read as others, to which stricter rules apply.

use super::*;

/// Upstreams may decode a slash before they look for what a path names.
#[test]
fn encoded_slashes_do_not_lead_around_the_rules_of_a_route() {
    let mut fixture = Fixture::new(
        "[[route]]\npath = \"/admin\"\nallow = \"10.0.0.0/8\"\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/files/\"\nallow_encoded_slashes = true\nfiles = { root = \"/\" }\n\
         [[route]]\npath = \"/strict/\"\nproxy = { upstreams = \"a:1\" }\n\
         [[route]]\npath = \"/\"\nallow_encoded_slashes = true\nproxy = { upstreams = \"a:1\" }\n",
    );
    for path in [
        "/admin%2Fusers",
        "/admin%5cusers",
        "/%2Fadmin/users",
        "/admin;x%2Fusers",
        "/admin%3Bx%5Cusers",
        "/files/a%2Fb",
        "/files/a%5Cb",
        "/strict/a%2Fb",
    ] {
        match fixture.decide(&head("GET", path, &[]), &peer(false)) {
            Decision::Discard(reply, _) => assert_eq!(reply.status, 400, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    for path in [
        "/group%2Fproject",
        "/api/queues/%2F/q",
        "/@scope%2fpkg",
        "/a%5Cb",
        "/strict%2Fa",
        "/administration%2Fx",
        "/a%2Fadmin",
    ] {
        let decision = fixture.decide(&head("GET", path, &[]), &peer(false));
        assert!(matches!(decision, Decision::Handle(_)), "{path}");
    }
}

#[test]
fn encoded_slashes_need_the_permission_of_the_route_or_its_site() {
    for (site, route, is_taken) in [
        ("", "", false),
        ("allow_encoded_slashes = true", "", true),
        ("allow_encoded_slashes = true", "allow_encoded_slashes = false", false),
        ("", "allow_encoded_slashes = true", true),
    ] {
        let mut fixture = Fixture::new(&format!(
            "[[site]]\nname = \"a\"\n{site}\n\
             [[route]]\npath = \"/\"\nsite = \"a\"\n{route}\nproxy = {{ upstreams = \"a:1\" }}\n",
        ));
        let decision = fixture.decide(&head("GET", "/a%2Fb", &[]), &peer(false));
        let found = matches!(decision, Decision::Handle(_));
        assert_eq!(found, is_taken, "{site}, {route}");
    }
    // Without a route, the path is refused as well.
    let mut fixture = Fixture::new("[[route]]\npath = \"/b\"\nproxy = { upstreams = \"a:1\" }\n");
    match fixture.decide(&head("GET", "/a%2Fb", &[]), &peer(false)) {
        Decision::Discard(reply, _) => assert_eq!(reply.status, 400),
        other => panic!("{other:?}"),
    }
}

/// Some applications take `post` for POST.
#[test]
fn a_method_in_lower_case_passes_no_route() {
    let mut fixture = Fixture::new(
        "[[route]]\npath = \"/\"\nmethod = \"POST\"\nfixed = { status = 403 }\n\
         [[route]]\npath = \"/\"\nproxy = { upstreams = \"a:1\" }\n",
    );
    for method in ["post", "Post", "pOST", "get", "connect", "m-search", "x"] {
        match fixture.decide(&head(method, "/", &[]), &peer(false)) {
            Decision::Discard(reply, _) => assert_eq!(reply.status, 400, "{method}"),
            other => panic!("{method}: {other:?}"),
        }
    }
    for method in ["PURGE", "M-SEARCH", "X_1"] {
        let decision = fixture.decide(&head(method, "/", &[]), &peer(false));
        assert!(matches!(decision, Decision::Handle(_)), "{method}");
    }
}
