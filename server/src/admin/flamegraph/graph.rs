//! Formats of profiles.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use inferno::flamegraph::{self, TextTruncateDirection};

use super::error::RecordError;

/// A finished profile.
pub(super) trait Profile {
    /// Draws a flame graph, an SVG image.
    ///
    /// # Errors
    /// There is nothing to draw.
    fn svg(&self) -> Result<Vec<u8>, RecordError>;

    /// Returns lines of `outermost function;…;innermost function number`, which most tools for flame graphs read.
    fn folded(&self) -> String;

    /// Returns the message for pprof, the program.
    ///
    /// # Errors
    /// It cannot be compressed.
    fn pprof(&self) -> Result<Vec<u8>, RecordError>;
}

/// Returns a function's name as it stands in a folded line, where a semicolon ends a name.
pub(super) fn folded_name(name: &str) -> String {
    name.replace(';', ":")
}

/// Draws folded lines, sorted by whole names, as a flame graph, an SVG image. `unit` is what the numbers at their ends count.
pub(super) fn draw(title: String, unit: &str, folded: &str) -> Result<Vec<u8>, RecordError> {
    let mut options = flamegraph::Options::default();
    options.title = title;
    options.count_name = unit.into();
    // The begin of a name says more: paths of modules are short, and types with parameters long.
    options.text_truncate_direction = TextTruncateDirection::Right;
    // A function has the same color in each graph.
    options.deterministic = true;
    // inferno wants lines in the order of their bytes, in which `a::b` comes before `a;c`, and draws a function in two pieces then. A flame
    // chart takes lines in any order, the last one first.
    options.flame_chart = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines().rev(), &mut svg)
        .map_err(RecordError::Drawing)?;
    Ok(svg)
}

/// Compresses a message for pprof, the program, by gzip as its format wants.
pub(super) fn compress(message: &[u8]) -> Result<Vec<u8>, RecordError> {
    let mut compressed = GzEncoder::new(Vec::new(), Compression::fast());
    let written = compressed.write_all(message);
    written.and_then(|()| compressed.finish()).map_err(RecordError::Compression)
}
