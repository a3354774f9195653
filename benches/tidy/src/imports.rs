//! The names that `use` brings in.

use syn::{UseTree, Visibility};

/// One name that a `use` brings in.
#[derive(Clone, Debug)]
pub struct Import {
    /// The name here, or `None` for a glob.
    pub name: Option<String>,
    /// The full path as written.
    pub target: Vec<String>,
    /// Whether others may take the name from here.
    pub public: bool,
    /// Line of the file.
    pub line: usize,
}

/// Returns the names of one `use` item.
#[must_use]
pub fn imports(item: &syn::ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    let public = !matches!(item.vis, Visibility::Inherited);
    flatten(&item.tree, &mut Vec::new(), public, &mut found);
    found
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, public: bool, found: &mut Vec<Import>) {
    let mut push = |name: Option<String>, last: Option<&syn::Ident>, line| {
        let mut target = prefix.clone();
        target.extend(last.filter(|ident| *ident != "self").map(ToString::to_string));
        found.push(Import { name, target, public, line });
    };
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, public, found);
            prefix.pop();
        }
        UseTree::Name(name) => {
            let line = name.ident.span().start().line;
            let own = if name.ident == "self" {
                prefix.last().cloned()
            } else {
                Some(name.ident.to_string())
            };
            push(own, Some(&name.ident), line);
        }
        UseTree::Rename(rename) => {
            let line = rename.ident.span().start().line;
            push(Some(rename.rename.to_string()), Some(&rename.ident), line);
        }
        UseTree::Glob(glob) => push(None, None, glob.star_token.spans[0].start().line),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, public, found);
            }
        }
    }
}
