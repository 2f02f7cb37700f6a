//! What is told to a CI system, and where.

use std::path::PathBuf;
use std::str::FromStr;

/// A form of the result for a CI system, with the file it goes to where one is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CiTarget {
    /// GitHub's annotations on stderr, and the step's summary.
    Github,
    /// JUnit's XML.
    Junit(Option<PathBuf>),
    /// Markdown.
    Markdown(Option<PathBuf>),
    /// Nothing, also where `GITHUB_ACTIONS` is set.
    Off,
}

impl FromStr for CiTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (form, file) = match text.split_once('=') {
            Some((form, file)) if !file.is_empty() => (form, Some(file.into())),
            Some(_) => return Err(format!("{text:?} names no file; write junit=FILE")),
            None => (text, None),
        };
        match (form, file) {
            ("github", None) => Ok(Self::Github),
            ("off", None) => Ok(Self::Off),
            ("junit", file) => Ok(Self::Junit(file)),
            ("markdown" | "md", file) => Ok(Self::Markdown(file)),
            ("github" | "off", Some(_)) => Err(format!("{form} takes no file")),
            _ => Err(format!(
                "{text:?} is none of github, junit, junit=FILE, markdown, markdown=FILE, off"
            )),
        }
    }
}
