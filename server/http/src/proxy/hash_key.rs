//! The part of a request by whose hash it gets an upstream.

use std::net::IpAddr;

use sluicegate_base::hash::hash;
use sluicegate_config::HashBy;

use super::balance::Policy;
use crate::exchange::cookie;
use crate::exchange::message::Request;

/// Returns the hash of the part of a request that the policy names; `None` if the policy names none, or the request has no such
/// part.
pub(super) fn hash_key(policy: &Policy, request: &Request) -> Option<u64> {
    let Policy::Hash { by, .. } = policy else {
        return None;
    };
    let fields = &request.head.headers;
    match by {
        HashBy::ClientAddress => Some(match request.peer.address.ip().to_canonical() {
            IpAddr::V4(address) => hash(&address.octets()),
            IpAddr::V6(address) => hash(&address.octets()),
        }),
        HashBy::Field(name) => {
            let field = fields.iter().find(|(known, _)| known == name.as_str());
            field.map(|(_, value)| hash(value.as_bytes()))
        }
        HashBy::Cookie(name) => cookie(fields, name).map(hash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::test_front::{head, request};

    fn key(by: HashBy, fields: &[(&'static str, &'static str)]) -> Option<u64> {
        let policy = Policy::Hash { by, load: 0 };
        hash_key(&policy, &request(head("GET", "/", fields), None, false))
    }

    #[test]
    fn field_or_cookie_decides_whatever_stands_beside_it() {
        let cookie = || HashBy::Cookie("id".to_owned());
        let expected = Some(hash(b"7"));
        for lines in [
            &[("cookie", "id=7")][..],
            &[("cookie", "a=1; id=7;b=2")],
            &[("cookie", "xid=8"), ("cookie", "id=7")],
        ] {
            assert_eq!(key(cookie(), lines), expected, "{lines:?}");
        }
        assert_eq!(key(cookie(), &[("cookie", "ID=7; idx=7; id")]), None);
        let field = || HashBy::Field("x-user".to_owned());
        assert_eq!(key(field(), &[("x-user", "7")]), expected);
        assert_eq!(key(field(), &[("x-users", "7")]), None);
        assert_eq!(key(HashBy::ClientAddress, &[]), Some(hash(&[192, 0, 2, 7])));
    }

    #[test]
    fn other_policies_hash_nothing() {
        let policy = Policy::RoundRobin;
        let request = request(head("GET", "/", &[]), None, false);
        assert_eq!(hash_key(&policy, &request), None);
    }
}
