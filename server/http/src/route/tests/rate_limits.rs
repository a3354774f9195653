//! Rate limits over reloads.

use sluicegate_base::clock;

use super::*;

const ROUTES: &str = "
    [[route]]
    path = [\"/a\", \"/b\"]
    rate_limit = { rate = \"1/h\" }
    fixed = {}
    [[route]]
    path = \"/c\"
    rate_limit = { rate = \"1/h\" }
    fixed = {}
";

/// Returns whether a request to a path is within the limit of its route.
fn is_admitted(site: &Site, path: &str) -> bool {
    let request = head("GET", path, &[]);
    let limit = site.find(&request).unwrap().access().rate_limit().unwrap();
    let client = "192.0.2.1".parse().unwrap();
    limit.count(client, clock::now()).is_ok()
}

#[test]
fn the_paths_of_a_route_share_its_limit_and_other_routes_do_not() {
    let site = Site::of_routes(ROUTES, &limits());
    for (path, expected) in [("/a", true), ("/b", false), ("/c", true), ("/c", false)] {
        assert_eq!(is_admitted(&site, path), expected, "{path}");
    }
}

#[test]
fn routes_share_the_limit_of_their_site_unless_they_have_their_own_or_none() {
    let site = Site::of_routes(
        "[[site]]\nname = \"shop\"\nrate_limit = { rate = \"1/h\" }\n\
         [[route]]\npath = \"/a\"\nsite = \"shop\"\nfixed = {}\n\
         [[route]]\npath = \"/b\"\nsite = \"shop\"\nfixed = {}\n\
         [[route]]\npath = \"/c\"\nsite = \"shop\"\nfixed = {}\nrate_limit = { rate = \"2/h\" }\n\
         [[route]]\npath = \"/d\"\nsite = \"shop\"\nfixed = {}\nrate_limit = \"off\"\n",
        &limits(),
    );
    let expected = [("/a", true), ("/b", false), ("/c", true), ("/c", true), ("/c", false)];
    for (path, expected) in expected {
        assert_eq!(is_admitted(&site, path), expected, "{path}");
    }
    let request = head("GET", "/d", &[]);
    let free = site.find(&request).unwrap();
    assert!(free.access().rate_limit().is_none());
}

#[test]
fn a_limit_keeps_its_counts_as_long_as_its_route_and_settings() {
    let site = Site::of_routes(ROUTES, &limits());
    assert!(is_admitted(&site, "/a") && is_admitted(&site, "/c"));
    let reload = |site: &Site, text: &str| {
        let new = sluicegate_config::Config::from_toml(
            "test.toml",
            &format!(
                "[[listener]]\nname = \"l\"\naddress = \"[::1]:1\"\ntls = \"self-signed\"\n{text}"
            ),
            &sluicegate_cc::Registry::builtin(),
        );
        let routes = &new.unwrap().routes;
        site.recompile(routes, &limits(), Identification::off()).unwrap()
    };
    let same = reload(&site, &ROUTES.replace("fixed = {}", "generate = {}"));
    assert!(!is_admitted(&same, "/b") && !is_admitted(&same, "/c"));
    let other = reload(&same, &ROUTES.replacen("1/h", "2/h", 1));
    assert!(is_admitted(&other, "/a") && !is_admitted(&other, "/c"));
    let none = reload(&other, "[[route]]\npath = \"/\"\nfixed = {}\n");
    assert!(is_admitted(&reload(&none, ROUTES), "/c"));
}
