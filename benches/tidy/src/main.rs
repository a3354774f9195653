//! Prints what the checks work with: `layers` what breaks the order of files and rooms, `lines` the
//! production lines of each crate.

use std::collections::BTreeMap;
use std::process::ExitCode;

use sluicegate_tidy::crates::{closure, libraries};
use sluicegate_tidy::layers::findings;
use sluicegate_tidy::lines::production;
use sluicegate_tidy::repository::read;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("layers") => {
            for finding in findings() {
                println!("{}\n{}", finding.line, finding.places);
            }
        }
        Some("lines") => print_lines(),
        _ => {
            eprintln!("usage: sluicegate-tidy layers | lines");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints the lines of each library and of its parts; of the libraries that the server needs, which are the production lines; and of
/// all together.
fn print_lines() {
    let needed = closure("sluicegate");
    let (mut product, mut all) = (0, 0);
    for library in libraries() {
        let mut parts = BTreeMap::<String, usize>::new();
        let mut sum = 0;
        for (file, lines) in production(&library, read) {
            let below = file.strip_prefix(library.folder.join("src"));
            let part = below.ok().and_then(|path| path.iter().next());
            let part = part.unwrap_or(file.as_os_str()).to_string_lossy();
            *parts.entry(part.trim_end_matches(".rs").to_owned()).or_default() += lines;
            sum += lines;
        }
        println!("{sum:7} {}", library.folder.display());
        for (part, lines) in parts {
            println!("{lines:15} {part}");
        }
        all += sum;
        if needed.contains(&library.folder) {
            product += sum;
        }
    }
    println!("{product:7} in the server\n{all:7} together");
}
