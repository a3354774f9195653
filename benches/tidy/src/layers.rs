//! Finds violations of the order of the code: circles of files, and uses that the table of rooms forbids.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::circles::{circles, graph};
use crate::crates::{Library, libraries};
use crate::resolve::End;
use crate::rooms::Layers;

/// One finding.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The finding on one line.
    pub line: String,
    /// The places that make it so, one per line.
    pub places: String,
}

/// Returns everything that breaks the order today.
#[must_use]
pub fn findings() -> BTreeSet<Finding> {
    let mut found = BTreeSet::new();
    for Library { tree, folder } in libraries() {
        let edges = tree.edges();
        for circle in circles(&graph(&tree, &edges)) {
            let mut line = "circle".to_owned();
            for file in &circle {
                let _ = write!(line, " {}", file.display());
            }
            let mut places = String::new();
            for edge in &edges {
                if let End::Module(to) = &edge.to
                    && circle.contains(tree.file(edge.from))
                    && circle.contains(tree.file(*to))
                {
                    let (from, to) = (tree.file(edge.from), tree.file(*to));
                    let (at, path) = (edge.line, &edge.path);
                    let _ =
                        writeln!(places, "    {}:{at} {path} ({})", from.display(), to.display());
                }
            }
            found.insert(Finding { line, places });
        }
        if let Some(layers) = Layers::of(&folder) {
            let lines = layers.violations(&tree, &edges).into_iter();
            found.extend(lines.map(|line| Finding { line, places: String::new() }));
        }
    }
    found
}
