//! Users with the hashes of their passwords.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params, PasswordVerifier as _};

/// Highest cost of a bcrypt hash: about a second.
const MAX_COST: u32 = 14;
/// Most memory of an argon2 hash, KiB.
const MAX_MEMORY: u32 = 64 << 10;
/// Most passes of an argon2 hash over its memory.
const MAX_PASSES: u32 = 16;

/// Reason for which a file of users is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    /// The file has no user.
    #[error("it has no user; add one by `htpasswd -B FILE NAME`")]
    Empty,
    /// A line is no name with a hash.
    #[error("line {0} is not name:hash")]
    Line(usize),
    /// A hash is of a kind that is not read.
    #[error("line {0} has no bcrypt or argon2 hash; write it again by `htpasswd -B FILE NAME`")]
    Kind(usize),
    /// A hash would take too much time or memory.
    #[error(
        "the hash in line {0} is too expensive: at most cost {MAX_COST} for bcrypt, 64 MiB and {MAX_PASSES} passes for argon2"
    )]
    Cost(usize),
    /// A user has a second line.
    #[error("the user of line {0} has an earlier line")]
    Twice(usize),
}

/// Chooses the hashes for names that nobody has.
static DECOYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Users with the hashes of their passwords; at least one.
pub struct Users {
    hashes: HashMap<Vec<u8>, Hash>,
    /// Hashes of all users. One of them is verified for a name that nobody has, the same for each name, so that the time it
    /// takes tells nobody who exists, even if hashes differ in their costs.
    decoys: Vec<Hash>,
}

/// Hash of a password, as its text.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Hash {
    Bcrypt(Arc<str>),
    Argon2(Arc<str>),
}

impl Users {
    /// Reads a file of users: `name:hash` in each line, as htpasswd writes them. Empty lines and lines that begin with `#`
    /// are skipped, and so is what follows a second colon.
    ///
    /// # Errors
    /// A line is malformed, or there is no user.
    pub fn parse(text: &str) -> Result<Users, UsersError> {
        let mut hashes = HashMap::new();
        let mut decoys = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let (at, line) = (at + 1, line.trim_end());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, rest) = line.split_once(':').ok_or(UsersError::Line(at))?;
            if name.is_empty() {
                return Err(UsersError::Line(at));
            }
            let hash = Hash::parse(rest.split(':').next().unwrap_or_default(), at)?;
            decoys.push(hash.clone());
            if hashes.insert(name.as_bytes().to_vec(), hash).is_some() {
                return Err(UsersError::Twice(at));
            }
        }
        if decoys.is_empty() {
            return Err(UsersError::Empty);
        }
        Ok(Users { hashes, decoys })
    }

    /// Returns whether these are the same users with the same hashes of passwords.
    pub fn are_same(&self, others: &Users) -> bool {
        self.hashes == others.hashes
    }

    /// Returns the hash of a user, and whether the user exists.
    pub(super) fn hash(&self, user: &[u8]) -> (&Hash, bool) {
        match self.hashes.get(user) {
            Some(hash) => (hash, true),
            None => (self.decoy(user), false),
        }
    }
}

impl Users {
    fn decoy(&self, name: &[u8]) -> &Hash {
        let place = DECOYS.hash_one(name) % self.decoys.len() as u64;
        &self.decoys[usize::try_from(place).unwrap_or(0)]
    }
}

/// Shows how many there are.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.hashes.len();
        f.debug_struct("Users").field("count", &count).finish_non_exhaustive()
    }
}

impl Hash {
    fn parse(text: &str, at: usize) -> Result<Hash, UsersError> {
        if ["$2a$", "$2b$", "$2y$"].iter().any(|kind| text.starts_with(kind)) {
            let parts: bcrypt::HashParts = text.parse().map_err(|_| UsersError::Kind(at))?;
            if parts.get_cost() > MAX_COST {
                return Err(UsersError::Cost(at));
            }
            return Ok(Hash::Bcrypt(text.into()));
        }
        if !text.starts_with("$argon2") {
            return Err(UsersError::Kind(at));
        }
        let hash = PasswordHash::new(text).map_err(|_| UsersError::Kind(at))?;
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err(UsersError::Kind(at));
        }
        let params = Params::try_from(&hash).map_err(|_| UsersError::Kind(at))?;
        if params.m_cost() > MAX_MEMORY || params.t_cost() > MAX_PASSES {
            return Err(UsersError::Cost(at));
        }
        Ok(Hash::Argon2(text.into()))
    }

    /// Returns the hash as it stands in the file.
    pub(super) fn text(&self) -> &str {
        match self {
            Hash::Bcrypt(text) | Hash::Argon2(text) => text,
        }
    }

    /// Returns whether this is the hash of a password. Takes tens of milliseconds of CPU time or more; the comparison
    /// takes the same time wherever the hashes differ.
    pub(super) fn verifies(&self, password: &[u8]) -> bool {
        match self {
            Hash::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Hash::Argon2(hash) => Argon2::default().verify_password(password, &**hash).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// bcrypt hash of `secret`, by the C library.
    const BCRYPT: &str = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
    /// argon2 hash of `password`, a test vector of the reference implementation.
    const ARGON2: &str =
        "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";

    #[test]
    fn hashes_of_other_programs_verify_their_password_alone() {
        for (hash, password) in [(BCRYPT, "secret"), (ARGON2, "password")] {
            let users = Users::parse(&format!("# users\n\nada:{hash}:comment\r\n")).unwrap();
            let (found, exists) = users.hash(b"ada");
            assert!(exists);
            assert_eq!(found.text(), hash);
            assert!(found.verifies(password.as_bytes()), "{hash}");
            for other in ["", "Secret", "secret ", "password\0"] {
                assert!(!found.verifies(other.as_bytes()), "{hash}: {other:?}");
            }
            let (decoy, exists) = users.hash(b"eve");
            assert!(!exists && decoy.text() == hash);
        }
    }

    #[test]
    fn names_that_nobody_has_take_the_time_of_users() {
        let text = |name: &str| {
            let dear = BCRYPT.replace("$04$", "$09$");
            let rest = (0..8).map(|at| format!("u{at}:{}\n", if at < 4 { BCRYPT } else { &dear }));
            rest.chain([format!("{name}:{BCRYPT}\n")]).collect::<String>()
        };
        let users = Users::parse(&text("ada")).unwrap();
        let dear = |name: &String| {
            let (hash, exists) = users.hash(name.as_bytes());
            assert!(!exists);
            assert_eq!(users.hash(name.as_bytes()).0.text(), hash.text(), "the same each time");
            hash.text().contains("$09$")
        };
        let names: Vec<String> = (0..1000).map(|at| format!("nobody {at}")).collect();
        let count = names.iter().filter(|name| dear(name)).count();
        // Four of nine users have the dear hash.
        assert!((300..600).contains(&count), "{count}");
    }

    #[test]
    fn what_cannot_be_verified_is_refused_by_its_line() {
        let cheap = |cost: &str| BCRYPT.replace("$04$", cost);
        for (text, expected) in [
            (String::new(), UsersError::Empty),
            ("# a\n\n".to_owned(), UsersError::Empty),
            (format!("a:{BCRYPT}\nb\n"), UsersError::Line(2)),
            (format!(":{BCRYPT}"), UsersError::Line(1)),
            ("a:".to_owned(), UsersError::Kind(1)),
            ("a:$apr1$x$y".to_owned(), UsersError::Kind(1)),
            ("a:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=".to_owned(), UsersError::Kind(1)),
            ("a:plain".to_owned(), UsersError::Kind(1)),
            ("a:$2y$04$short".to_owned(), UsersError::Kind(1)),
            ("a:$argon2id$v=19$m=256".to_owned(), UsersError::Kind(1)),
            (format!("a:{}", cheap("$15$")), UsersError::Cost(1)),
            (format!("a:{}", ARGON2.replace("m=256", "m=65537")), UsersError::Cost(1)),
            (format!("a:{}", ARGON2.replace("t=2", "t=17")), UsersError::Cost(1)),
            (format!("a:{BCRYPT}\nb:{BCRYPT}\na:{ARGON2}"), UsersError::Twice(3)),
        ] {
            assert_eq!(Users::parse(&text).err(), Some(expected), "{text}");
        }
        for fine in [cheap("$14$"), ARGON2.replace("m=256,t=2", "m=65536,t=16")] {
            assert!(Users::parse(&format!("a:{fine}")).is_ok(), "{fine}");
        }
    }
}
