//! What is said of an output that could not be written whole.

use std::fmt::Display;
use std::io::{self, ErrorKind};

/// What could not be written, and what to do about it, which the kind of the failure decides. The reason itself is not
/// in it: it follows as the source of the error.
#[must_use]
pub fn unwritten(what: impl Display, error: &io::Error) -> String {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free some space or choose another folder"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "choose a folder that you may write to"
        }
        ErrorKind::NotFound | ErrorKind::NotADirectory => "its folder is not there; make it",
        ErrorKind::IsADirectory => "a folder has its name; remove it or choose another name",
        ErrorKind::AlreadyExists => "it is there already; remove it or choose another name",
        _ => return format!("cannot write {what}"),
    };
    format!("cannot write {what}: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_follows_the_kind_of_the_failure() {
        let of = |kind: ErrorKind| unwritten("series.csv", &kind.into());
        assert_eq!(
            of(ErrorKind::StorageFull),
            "cannot write series.csv: free some space or choose another folder"
        );
        for kind in [
            ErrorKind::PermissionDenied,
            ErrorKind::NotFound,
            ErrorKind::IsADirectory,
            ErrorKind::AlreadyExists,
        ] {
            let text = of(kind);
            assert!(text.starts_with("cannot write series.csv: "), "{text}");
            assert!(!text.contains("space"), "{kind}: {text}");
        }
        assert_eq!(of(ErrorKind::Interrupted), "cannot write series.csv");
    }
}
