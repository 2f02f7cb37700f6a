//! The name that a mistyped one was meant to be.

/// The known name that a mistyped one was meant to be, if there is one within 4 typing errors.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .min()
        .filter(|(distance, _)| *distance <= MAX_TYPING_ERRORS)
        .map(|(_, name)| name)
}

/// Further apart than this two keys are different words.
const MAX_TYPING_ERRORS: usize = 4;
