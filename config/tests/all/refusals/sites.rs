//! Sites, and the routes that name them.

use crate::refusals::refusal_after;

const ROUTE: &str = "[[route]]\npath = \"/\"\nfixed = {}\n";

#[test]
fn a_route_names_a_site_that_exists() {
    assert_eq!(
        refusal_after(&format!("{ROUTE}site = \"shop\"")),
        "8:8: no [[site]] is named \"shop\"; expected a [[site]] of that name"
    );
    let site = "[[site]]\nname = \"shop\"\n";
    assert_eq!(
        refusal_after(&format!("{site}{ROUTE}site = \"shops\"")),
        "10:8: no [[site]] is named \"shops\"; expected one of: shop (nearest: shop)"
    );
    assert_eq!(
        refusal_after(&format!("{site}{site}")),
        "8:8: site \"shop\" again, first on line 6; expected a name of its own"
    );
}

#[test]
fn routes_of_a_site_are_for_its_hosts() {
    let site = "[[site]]\nname = \"shop\"\nhost = \"a.example\"\n";
    let other = ROUTE.replace("fixed = {}", "host = \"a.example\"\nfixed = {}");
    assert_eq!(
        refusal_after(&format!("{site}{ROUTE}site = \"shop\"\n{other}")),
        "13:8: path \"/\" on host \"a.example\" again, first on line 9; expected another host, path, method or condition \
         than those of the other routes"
    );
}

#[test]
fn settings_of_a_site_have_their_bounds_and_no_groups() {
    let site = |keys: &str| refusal_after(&format!("[[site]]\nname = \"shop\"\n{keys}\n"));
    assert_eq!(
        site("timeout = \"0s\""),
        "7:11: `timeout` is 0s, below 1ms; expected a duration from \"1ms\" to \"1d\""
    );
    assert_eq!(
        site("request_headers.set = { x = \"{capture:1}\" }"),
        "7:1: {capture:1} in [site.request_headers]; expected such a placeholder in a [[route]], whose path has the group"
    );
    let error = site("[site.response_headers]\nset = { x = \"{client}\" }");
    assert!(error.starts_with("8:13: placeholder `{client}` in `set`"), "{error}");
    let error = site("[site.request_headers]\nset = { host = \"a\" }");
    assert!(error.contains("the key `host` of [route.proxy]"), "{error}");
    assert_eq!(site("fixed = {}"), "7:1: `fixed` belongs to [[route]]; move it there");
    assert_eq!(
        site("rate_limit = \"on\""),
        "7:14: string \"on\" for `site.rate_limit`; expected a table [site.rate_limit], such as rate_limit = { rate = \"on\" }"
    );
}

#[test]
fn a_fixed_redirect_has_the_target_of_its_site() {
    let route = "[[route]]\npath = \"/\"\nsite = \"shop\"\nfixed = { status = 301 }\n";
    let site = "[[site]]\nname = \"shop\"\n";
    let target = "response_headers.set = { location = \"https://a{path}\" }\n";
    let registry = sluicegate_cc::Registry::builtin();
    let text = format!("{}{site}{target}{route}", crate::refusals::LISTENER);
    sluicegate_config::Config::from_toml("edge.toml", &text, &registry).unwrap();
    let removed = format!("{site}{target}{route}response_headers.remove = \"location\"");
    for (text, line) in [(format!("{site}{route}"), 10), (removed, 11)] {
        assert_eq!(
            refusal_after(&text),
            format!(
                "{line}:9: fixed response with status 301 and no `location`; expected a [route.redirect], or `location` in \
                 [route.response_headers]"
            )
        );
    }
}
