//! What this crate refuses to be built from.

/// Why a setting or a text is not legal.
///
/// Displays as one line that names the value, what is wrong with it and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);

/// Refuses a `value` that is out of range; `name` is the setting's.
pub(crate) fn check_limit(
    name: &str,
    value: usize,
    (least, most): (usize, usize),
) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error(format!("{name} is {least} to {most}, not {value}")))
}
