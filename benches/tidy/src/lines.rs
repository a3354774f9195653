//! Lines of production code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File};

use crate::cfg::test_only;
use crate::crates::Library;
use crate::repository::{self, has_extension};

/// Folders whose files a build script adds to a library, which its modules do not declare.
const ADDED: &[&str] = &["cc/quiche/build", "cc/quiche/src"];

/// Returns the number of production lines of each file of a library: those with code that users run. Comments, blank lines and
/// whatever exists only in tests are none.
///
/// # Panics
///
/// When a file is not Rust.
#[must_use]
pub fn production(library: &Library, read: impl Fn(&Path) -> String) -> BTreeMap<PathBuf, usize> {
    let modules = library.tree.modules.iter();
    let mut files: BTreeSet<_> = modules.map(|module| module.file.clone()).collect();
    if ADDED.iter().any(|folder| Path::new(folder).parent() == Some(&library.folder)) {
        let all = repository::files().into_iter().filter(|file| has_extension(file, "rs"));
        files.extend(all.filter(|file| ADDED.iter().any(|folder| file.starts_with(folder))));
    }
    let lines = |file: PathBuf| {
        let lines = code_lines(&file, &read(&file));
        (file, lines)
    };
    files.into_iter().map(lines).collect()
}

fn code_lines(file: &Path, text: &str) -> usize {
    let parsed = syn::parse_file(text);
    let parsed = parsed.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let tokens: TokenStream = text.parse().expect("what has been parsed has tokens");
    let mut lines = BTreeSet::new();
    mark(tokens, &mut lines);
    for line in test_lines(&parsed) {
        lines.remove(&line);
    }
    lines.len()
}

/// Adds the lines that hold a token, apart from documentation, which is an attribute without a source of its own.
fn mark(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == '#'
        {
            if let Some(TokenTree::Punct(bang)) = tokens.peek()
                && bang.as_char() == '!'
            {
                tokens.next();
            }
            if let Some(TokenTree::Group(group)) = tokens.peek()
                && is_documentation(group)
            {
                tokens.next();
                continue;
            }
        }
        let span = token.span();
        if let TokenTree::Group(group) = &token {
            lines.insert(group.span_open().start().line);
            lines.insert(group.span_close().end().line);
            mark(group.stream(), lines);
        } else {
            lines.extend(span.start().line..=span.end().line);
        }
    }
}

fn is_documentation(group: &proc_macro2::Group) -> bool {
    let first = group.stream().into_iter().next();
    group.delimiter() == Delimiter::Bracket
        && matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

/// Returns the lines of items that exist only in tests.
fn test_lines(file: &File) -> BTreeSet<usize> {
    struct Finder(BTreeSet<usize>);
    impl Finder {
        fn item(&mut self, attributes: &[Attribute], node: &impl syn::spanned::Spanned) -> bool {
            let only = test_only(attributes);
            if only {
                let first = attributes.first().map(syn::spanned::Spanned::span);
                let span = node.span();
                let start = first.unwrap_or(span).start().line;
                self.0.extend(start..=span.end().line);
            }
            only
        }
    }
    impl<'ast> Visit<'ast> for Finder {
        fn visit_item_mod(&mut self, node: &'ast syn::ItemMod) {
            if !self.item(&node.attrs, node) {
                visit::visit_item_mod(self, node);
            }
        }
        fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
            if !self.item(&node.attrs, node) {
                visit::visit_item_fn(self, node);
            }
        }
        fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
            if !self.item(&node.attrs, node) {
                visit::visit_item_impl(self, node);
            }
        }
        fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
            self.item(&node.attrs, node);
        }
        fn visit_item_use(&mut self, node: &'ast syn::ItemUse) {
            self.item(&node.attrs, node);
        }
        fn visit_item_struct(&mut self, node: &'ast syn::ItemStruct) {
            self.item(&node.attrs, node);
        }
        fn visit_item_const(&mut self, node: &'ast syn::ItemConst) {
            self.item(&node.attrs, node);
        }
    }
    let mut finder = Finder(BTreeSet::new());
    finder.visit_file(file);
    finder.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! Doc.\n\n/// Doc.\n#[must_use]\nfn f() -> &'static str {\n    // why\n    \"a\n    b\"\n}\n\n\
                    #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        assert_eq!(code_lines(Path::new("x.rs"), text), 5);
    }
}
