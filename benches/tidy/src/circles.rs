//! Circles of files that use each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::resolve::{Edge, End};
use crate::tree::Tree;

/// Files that each file uses.
pub type Graph = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Returns which files of a crate use which; see [`Tree::edges`] for what counts. A module may use the types of those that it is part of,
/// since a room is read whole.
#[must_use]
pub fn graph(tree: &Tree, edges: &BTreeSet<Edge>) -> Graph {
    let mut graph = Graph::new();
    for edge in edges {
        if let End::Module(to) = &edge.to
            && !tree.modules[edge.from].path.starts_with(&tree.modules[*to].path)
        {
            let uses = graph.entry(tree.file(edge.from).clone()).or_default();
            uses.insert(tree.file(*to).clone());
        }
    }
    graph
}

/// Returns each largest set of files in which every file leads to every other.
#[must_use]
pub fn circles(graph: &Graph) -> BTreeSet<BTreeSet<PathBuf>> {
    let reach: BTreeMap<_, _> = graph.keys().map(|file| (file, reached(graph, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, ahead) in &reach {
        let back = |other: &&PathBuf| reach.get(other).is_some_and(|files| files.contains(*file));
        let circle: BTreeSet<_> = ahead.iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    circles
}

fn reached(graph: &Graph, start: &PathBuf) -> BTreeSet<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut ahead = vec![start];
    while let Some(file) = ahead.pop() {
        for next in graph.get(file).into_iter().flatten() {
            if seen.insert(next.clone()) {
                ahead.push(next);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn files_that_lead_to_each_other_are_a_circle() {
        let graph = Graph::from([
            (PathBuf::from("a"), set(&["b"])),
            (PathBuf::from("b"), set(&["c", "d"])),
            (PathBuf::from("c"), set(&["a"])),
            (PathBuf::from("d"), set(&["e"])),
            (PathBuf::from("x"), set(&["y", "a"])),
            (PathBuf::from("y"), set(&["x"])),
        ]);
        let expected = [set(&["a", "b", "c"]), set(&["x", "y"])];
        assert_eq!(circles(&graph), BTreeSet::from(expected));
    }
}
