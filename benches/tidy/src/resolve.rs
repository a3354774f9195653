//! Resolution of the names in a crate's code, as Rust does it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::tree::{ModuleId, Tree};
use crate::uses::Method;

/// The meaning of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An item that this module defines, or a name in it that only a macro can have made.
    Item(ModuleId),
    /// A module.
    Module(ModuleId),
    /// Something of another crate, with its path there.
    External(String),
}

/// One use of another file or crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Module that names.
    pub from: ModuleId,
    /// The item or crate that it names.
    pub to: End,
    /// Line of the file.
    pub line: usize,
    /// The path as written.
    pub path: String,
}

/// The end of an [`Edge`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A module of the same crate, in whose file the named item is defined.
    Module(ModuleId),
    /// Something of another crate, with its path there.
    Crate(String),
}

/// A type: the module that defines it, and its name.
type Owner<'t> = (ModuleId, &'t str);

/// Longest chain of re-exports that is followed.
const MAX_DEPTH: usize = 16;

impl Tree {
    /// Returns what each module uses: every item of another file that its code names, by `use` or in place, and every crate.
    ///
    /// A re-export is followed to the file that defines the item. The re-export itself is a use, unless a module passes
    /// on what is defined below it, which is a declaration. Naming a module alone, as `use super::link;` does, is none:
    /// its items are what is used.
    #[must_use]
    pub fn edges(&self) -> BTreeSet<Edge> {
        let mut edges = BTreeSet::new();
        let methods = self.methods();
        for from in 0..self.modules.len() {
            let module = &self.modules[from];
            for import in &module.imports {
                let target = self.resolve(from, &import.target, true, 0);
                let below = |to| self.is_below(to, from);
                if import.public
                    && matches!(target, Some(Target::Item(to) | Target::Module(to)) if below(to))
                {
                    continue;
                }
                let glob = import.name.is_none();
                self.add_edge(&mut edges, from, target, &import.target, import.line, glob);
            }
            for named in &module.named {
                let target = self.resolve(from, &named.segments, false, 0);
                self.add_edge(&mut edges, from, target, &named.segments, named.line, false);
            }
            for call in &module.own_calls {
                let to = self.owner(from, call).and_then(|owner| methods.get(&(owner, &call.name)));
                let path = [call.owner.as_slice(), std::slice::from_ref(&call.name)].concat();
                let target = to.map(|to| Target::Item(*to));
                self.add_edge(&mut edges, from, target, &path, call.line, false);
            }
        }
        edges
    }

    /// Returns the modules that define the methods of types, by type and name.
    fn methods(&self) -> BTreeMap<(Owner<'_>, &String), ModuleId> {
        let mut methods = BTreeMap::new();
        for (at, module) in self.modules.iter().enumerate() {
            for method in &module.methods {
                if let Some(owner) = self.owner(at, method) {
                    methods.insert((owner, &method.name), at);
                }
            }
        }
        methods
    }

    /// Returns the type that a method of the module `from` belongs to.
    fn owner<'t>(&'t self, from: ModuleId, method: &'t Method) -> Option<Owner<'t>> {
        match self.resolve(from, &method.owner, false, 0)? {
            Target::Item(module) => Some((module, method.owner.last()?)),
            _ => None,
        }
    }

    fn add_edge(
        &self,
        edges: &mut BTreeSet<Edge>,
        from: ModuleId,
        target: Option<Target>,
        path: &[String],
        line: usize,
        glob: bool,
    ) {
        let to = match target {
            Some(Target::Item(to)) if self.file(to) != self.file(from) => End::Module(to),
            Some(Target::Module(to)) if glob && self.file(to) != self.file(from) => End::Module(to),
            Some(Target::External(name)) => End::Crate(name),
            _ => return,
        };
        let path = path.join("::");
        edges.insert(Edge { from, to, line, path });
    }

    /// Returns the file of a module.
    #[must_use]
    pub fn file(&self, module: ModuleId) -> &PathBuf {
        &self.modules[module].file
    }

    fn is_below(&self, module: ModuleId, ancestor: ModuleId) -> bool {
        self.modules[module].path.starts_with(&self.modules[ancestor].path)
    }

    /// Finds what `path` means in the module `from`. In a `use`, a name that nobody declares is a crate.
    fn resolve(
        &self,
        from: ModuleId,
        path: &[String],
        in_use: bool,
        depth: usize,
    ) -> Option<Target> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut at = from;
        let mut rest = path;
        let mut anchored = false;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.modules[at].parent?,
                _ => break,
            }
            anchored = true;
            rest = after;
        }
        if anchored {
            return Some(self.walk(at, rest, depth).unwrap_or(Target::Item(at)));
        }
        let found = self.walk(at, rest, depth);
        found.or_else(|| match path {
            [_] if in_use => Some(Target::External(path.join("::"))),
            [_, _, ..] => Some(Target::External(path.join("::"))),
            _ => None,
        })
    }

    /// Finds `rest` among the names of a module.
    fn walk(&self, at: ModuleId, rest: &[String], depth: usize) -> Option<Target> {
        let module = &self.modules[at];
        let Some((name, after)) = rest.split_first() else {
            return Some(Target::Module(at));
        };
        let child = module.children.get(name);
        if let Some(&child) = child
            && !after.is_empty()
        {
            return Some(self.walk(child, after, depth).unwrap_or(Target::Item(child)));
        }
        if module.items.contains(name) {
            return Some(Target::Item(at));
        }
        if let Some(&child) = child {
            return Some(Target::Module(child));
        }
        let named = module.imports.iter().filter(|i| i.name.as_ref() == Some(name));
        for import in named {
            // `use self::x` or `use x` of this very name would lead back here.
            if import.target.len() == 1 && import.target[0] == *name {
                return Some(Target::External([&import.target[..], after].concat().join("::")));
            }
            let whole = [import.target.as_slice(), after].concat();
            if let Some(found) = self.resolve(at, &whole, true, depth + 1) {
                return Some(found);
            }
        }
        if depth > MAX_DEPTH {
            return None;
        }
        let globs = module.imports.iter().filter(|import| import.name.is_none());
        for glob in globs {
            if let Some(Target::Module(inner)) = self.resolve(at, &glob.target, true, depth + 1)
                && inner != at
                && let Some(found) = self.walk(inner, rest, depth + 1)
            {
                return Some(found);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Returns the uses of a crate of these files, as `from -> to` by module names.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let source = |file: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == file);
            found.map(|(_, text)| (*text).to_owned())
        };
        let tree = Tree::read(&source, Path::new("lib.rs"));
        let name = |id: ModuleId| format!("/{}", tree.modules[id].path.join("/"));
        let end = |edge: &Edge| match &edge.to {
            End::Module(to) => name(*to),
            End::Crate(path) => path.clone(),
        };
        let edges = tree.edges();
        let lines = edges.iter().map(|e| format!("{} -> {}", name(e.from), end(e)));
        let mut lines: Vec<_> = lines.filter(|line| !line.ends_with("std")).collect();
        lines.dedup();
        lines
    }

    #[test]
    fn imports_and_inline_paths_are_uses() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; fn f(_: B) -> super::c::C { todo!() }"),
            ("b.rs", "pub struct B;"),
            ("c.rs", "pub struct C; fn g() { log!(\"{}\", crate::b::B, self.b); }"),
        ]);
        assert_eq!(found, ["/a -> /b", "/a -> /c", "/c -> /b"]);
    }

    #[test]
    fn a_parent_that_only_declares_uses_no_child() {
        let found = uses(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub use b::B; pub struct A;"),
            ("a/b.rs", "pub struct B(super::A);"),
        ]);
        assert_eq!(found, ["/a/b -> /a"]);
        let found = uses(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub use b::B; pub struct A(Option<Box<B>>);"),
            ("a/b.rs", "pub struct B(super::A);"),
        ]);
        assert_eq!(found, ["/a -> /a/b", "/a/b -> /a"]);
    }

    #[test]
    fn reexports_lead_to_the_definition() {
        let found = uses(&[
            ("lib.rs", "mod a; mod z;"),
            ("a/mod.rs", "mod b; mod d; pub use b::*; pub(crate) use d::D as Renamed;"),
            ("a/b.rs", "pub struct B; pub enum E { One }"),
            ("a/d.rs", "pub struct D;"),
            ("z.rs", "use crate::a; fn f(_: a::B, _: a::Renamed) { let _ = a::E::One; }"),
        ]);
        assert_eq!(found, ["/z -> /a/b", "/z -> /a/d"]);
    }

    #[test]
    fn tests_and_own_inline_modules_use_nothing() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "pub struct A; mod inner { use super::A; }\n#[cfg(test)] mod tests { use crate::b::B; }\n\
                 impl A { #[cfg(any(test, fuzzing))] fn f() { crate::b::B; } }",
            ),
            ("b.rs", "pub struct B; use super::a;"),
        ]);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn calls_of_own_methods_lead_to_their_files() {
        let found = uses(&[
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; mod c; pub struct A; impl A { fn all(&self) { self.one(); } }"),
            ("a/b.rs", "use super::A; impl A { pub fn one(&self) { self.two(); self.none(); } }"),
            ("a/c.rs", "use super::A; impl A { pub fn two(&self) { Self::one(self); } }"),
        ]);
        let expected = [
            "/a -> /a/b",
            "/a/b -> /a",
            "/a/b -> /a/c",
            "/a/c -> /a",
            "/a/c -> /a/b",
            "/a/c -> Self::one",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn other_crates_are_named() {
        let found = uses(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use quiche::h3; fn f(_: h3::Error) {}"),
            ("b.rs", "fn f(_: sluicegate_dataplane::Meta, b: u8) { b; }"),
        ]);
        assert_eq!(
            found,
            ["/a -> quiche::h3", "/a -> quiche::h3::Error", "/b -> sluicegate_dataplane::Meta"]
        );
    }
}
