//! Clients that may use a route.

use super::*;

fn access(settings: &str) -> Site {
    let text = format!("[[route]]\npath = \"/\"\nfixed = {{}}\n{settings}\n");
    Arc::into_inner(Site::of_routes(&text, &limits())).unwrap()
}

#[test]
fn deny_comes_before_allow_and_allow_before_everybody_else() {
    use Denial::{Denied, NotAllowed};
    for (settings, client, expected) in [
        ("", "192.0.2.1", Ok(())),
        ("allow = \"10.0.0.0/8\"", "10.0.0.1", Ok(())),
        ("allow = \"10.0.0.0/8\"", "::ffff:10.0.0.1", Ok(())),
        ("allow = \"10.0.0.0/8\"", "11.0.0.1", Err(NotAllowed)),
        ("allow = \"10.0.0.0/8\"", "2001:db8::1", Err(NotAllowed)),
        ("deny = \"10.0.0.0/8\"", "10.0.0.1", Err(Denied)),
        ("deny = \"10.0.0.0/8\"", "::ffff:10.0.0.1", Err(Denied)),
        ("deny = \"10.0.0.0/8\"", "11.0.0.1", Ok(())),
        ("deny = \"all\"", "2001:db8::1", Err(Denied)),
        ("allow = \"10.0.0.1\"\ndeny = \"10.0.0.0/8\"", "10.0.0.1", Err(Denied)),
        ("allow = \"10.0.0.0/8\"\ndeny = \"10.0.0.1\"", "10.0.0.2", Ok(())),
        ("allow = \"10.0.0.0/8\"\ndeny = \"10.0.0.1\"", "11.0.0.1", Err(NotAllowed)),
    ] {
        let site = access(settings);
        let found = site.find(&head("GET", "/", &[])).unwrap();
        let checked = found.access().check(client.parse().unwrap());
        assert_eq!(checked, expected, "{settings}: {client}");
        assert_eq!(found.access().is_open(), settings.is_empty(), "{settings}");
    }
}
