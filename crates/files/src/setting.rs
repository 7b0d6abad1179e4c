//! Settings that come from the environment.

use crate::error::FilesError;

/// The number that a variable of the environment has; `None` if it is not set.
///
/// # Errors
/// [`FilesError::Setting`]: it is not a number. `what` says what it should be.
pub(crate) fn number_of(name: &'static str, what: &str) -> Result<Option<u64>, FilesError> {
    let Some(value) = std::env::var_os(name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let number = value.to_str().and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| FilesError::Setting {
        name,
        what: what.to_owned(),
        value: value.to_string_lossy().into_owned(),
    })?;
    Ok(Some(number))
}
