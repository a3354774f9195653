//! Properties of every text; the fuzz target `configuration` checks them too.

use sluicegate_cc::Registry;
use sluicegate_config::Config;

/// Checks that a configuration that is accepted reads back the same after printing, and that an error is one line with
/// a place inside the text.
///
/// # Errors
/// Returns a description of the property that does not hold.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let read = |text: &str| Config::from_toml("edge.toml", text, &Registry::builtin());
    match read(text) {
        Ok(config) => {
            let again = read(&config.to_toml());
            let same = again.as_ref() == Ok(&config);
            same.then_some(())
                .ok_or_else(|| format!("printed and read again, {config:?} is {again:?}"))
        }
        Err(error) => {
            let position = error.position.ok_or("a refusal without a place")?;
            let lines = 1..=text.lines().count() + 1;
            let inside = lines.contains(&position.line) && position.column >= 1;
            let clear = inside && !error.to_string().contains('\n');
            clear.then_some(()).ok_or_else(|| format!("a refusal that is hard to use: {error}"))
        }
    }
}
