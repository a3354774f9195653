//! Prints `example.toml`: run it after a key was added or changed.

fn main() {
    print!("{}", sluicegate_config::manual(&sluicegate_cc::Registry::builtin()));
}
