//! Passwords of a route.

use std::path::PathBuf;

use crate::field::Record;
use crate::schema::{Kind, Table};

table! {
    /// Users with passwords for the route above, by HTTP's Basic scheme (RFC 7617). A request without a valid name and
    /// password gets 401. The first request with a password is checked on threads that do nothing else and give way to all
    /// others, one at a time for each four cores of the host. The result holds for a minute, and that of a valid password for
    /// about a minute after its last use, up to an hour, at all workers; only a keyed hash of it is kept. While 256 passwords wait
    /// for a check, or four of one client, further ones get 503.
    #[derive(Eq)]
    pub struct BasicAuth = [route.basic_auth] {
        /// File with a user in each line, as `htpasswd -B FILE NAME` writes it: name:hash. Hashes are bcrypt ($2y$), with a
        /// cost of 14 at most, or argon2 ($argon2id$), with 64 MiB at most. It is read at start and at each reload.
        users_file: PathBuf { kind: Kind::Path, required: "\"users.htpasswd\"", reload: Live },
        /// Name of what the password protects, which browsers show.
        realm: String { kind: Kind::FieldValue { max: 128 }, default: "\"restricted\"", examples: ["\"Back office\""], reload: Live },
        /// Whether upstreams receive the request's Authorization field. Turn it on for an application that reads the
        /// user's name there; it then receives the password, too.
        forward: bool { kind: Kind::Switch, default: "false", examples: ["true"], reload: Live },
    }
}

impl BasicAuth {
    /// The same keys in the table of a site.
    pub(crate) const OF_SITES: &'static Table = &Table {
        name: "site.basic_auth",
        summary: "Users with passwords for the site above. The keys are those of [route.basic_auth].",
        ..*Self::TABLE
    };
}
