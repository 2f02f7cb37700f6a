//! Elements of a page.

use crate::text::escape;

/// An element of HTML around other HTML; `name` may be followed by attributes.
pub(crate) fn tag(name: &str, content: &str) -> String {
    let end = name.split(' ').next().unwrap_or(name);
    format!("<{name}>{content}</{end}>")
}

/// A link to a page beside this one.
pub(crate) fn link(to: &str, text: &str) -> String {
    tag(&format!("a href=\"{}\"", escape(to)), &escape(text))
}

/// A sentence in small letters, of text.
pub(crate) fn note(text: &str) -> String {
    tag("p class=\"note\"", &escape(text))
}

/// Where there is nothing to show, why.
pub(crate) fn none(text: &str) -> String {
    tag("p class=\"none\"", &escape(text))
}
