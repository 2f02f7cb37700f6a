//! The page that every report is.

use crate::html::{link, tag};
use crate::text::escape;

/// A self-contained HTML page under construction: one file, nothing loaded. Its own script reads charts under the
/// pointer, zooms them, switches their lines and copies the page as Markdown; without it all of the page is there.
/// The page's policy lets no other script run.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
    /// The names of its sections.
    names: Vec<String>,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            body: tag("h1", &escape(title)),
            names: Vec::new(),
        }
    }

    /// The sentence with the most important result, of text; what stands between two `**` is bold.
    pub fn headline(&mut self, text: &str) {
        let escaped = escape(text);
        let parts = escaped.split("**").enumerate();
        let html: String = parts
            .map(|(number, part)| match number % 2 {
                0 => part.to_owned(),
                _ => tag("b", part),
            })
            .collect();
        self.push(&tag("p class=\"headline\"", &html));
    }

    /// A paragraph of text.
    pub fn paragraph(&mut self, text: &str) {
        self.push(&tag("p", &escape(text)));
    }

    /// A heading and what follows it, from HTML.
    pub fn section(&mut self, heading: &str, html: &str) {
        let name = self.name(heading);
        let heading = tag("h2", &(escape(heading) + &*link_to(&name)));
        self.push(&tag(&format!("section id=\"{name}\""), &(heading + html)));
    }

    /// A heading and what follows it, from HTML, folded until it is asked for; printed it is open.
    pub fn fold(&mut self, heading: &str, html: &str) {
        let name = self.name(heading);
        let heading = tag("h2", &(escape(heading) + &*link_to(&name)));
        let fold = format!("details class=\"fold\" id=\"{name}\"");
        self.push(&tag(&fold, &(tag("summary", &heading) + html)));
    }

    /// Links to pages beside this one: where to, relative to it, and what is there.
    pub fn links<'a>(&mut self, links: impl IntoIterator<Item = &'a (String, String)>) {
        let links: Vec<String> = links.into_iter().map(|(to, text)| link(to, text)).collect();
        if !links.is_empty() {
            self.push(&tag("nav", &links.join(" · ")));
        }
    }

    /// A heading and a text with its own lines and blanks.
    pub fn preformatted(&mut self, heading: &str, text: &str) {
        self.section(heading, &tag("pre", &escape(text)));
    }

    /// HTML as it is.
    pub fn push(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// Charts side by side where there is room.
    pub fn grid(charts: impl IntoIterator<Item = String>) -> String {
        tag(
            "div class=\"grid\"",
            &charts.into_iter().collect::<String>(),
        )
    }

    /// What a link to a section of this heading calls it: its letters and digits; a second one gets a number.
    fn name(&mut self, heading: &str) -> String {
        let is_part = |letter: char| letter.is_ascii_alphanumeric();
        let words = heading.split(|letter| !is_part(letter));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let base = match words.join("-").to_ascii_lowercase() {
            none if none.is_empty() => "section".to_owned(),
            name => name,
        };
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.clone()).chain(numbered);
        let free = names.find(|name| !self.names.contains(name));
        let name = free.unwrap_or(base);
        self.names.push(name.clone());
        name
    }

    /// The whole page.
    pub fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
             script-src '{SCRIPT_HASH}'; base-uri 'none'; form-action 'none'\">\
             <title>{}</title><style>{STYLE}</style></head><body><main>{}</main>\
             <script>{SCRIPT}</script></body></html>\n",
            escape(&self.title),
            self.body
        )
    }
}

/// The sign after a heading that leads to it, for a reader who wants to send it on.
fn link_to(name: &str) -> String {
    format!(" <a class=\"to\" href=\"#{name}\" aria-label=\"link to this section\">#</a>")
}

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Of [`SCRIPT`], for the policy (CSP level 3, W3C, 6.7.3.3); a test computes it.
const SCRIPT_HASH: &str = "sha256-YHg9OMam94R9PGhriwh9IdRBG+4nUPd2VQydUqJMN84=";

#[cfg(test)]
mod tests {
    use base64_simd::STANDARD;
    use sha2::{Digest as _, Sha256};

    use super::*;

    #[test]
    fn the_policy_names_the_script_and_the_script_is_small_and_loads_nothing() {
        let hash = STANDARD.encode_to_string(Sha256::digest(SCRIPT));
        assert_eq!(SCRIPT_HASH, format!("sha256-{hash}"));
        assert!(SCRIPT.len() <= 12_000, "{} bytes", SCRIPT.len());
        for outside in ["://", "</", "fetch(", "import", "innerHTML", "eval("] {
            assert!(!SCRIPT.contains(outside), "{outside}");
        }
    }

    #[test]
    fn sections_of_one_heading_have_links_of_their_own() {
        let mut page = Page::new("a page");
        page.section("The <knee>", "");
        page.fold("The knee", "");
        page.section("??", "");
        let html = page.html();
        for part in [
            "<section id=\"the-knee\"><h2>The &lt;knee&gt; <a class=\"to\" href=\"#the-knee\"",
            "<details class=\"fold\" id=\"the-knee-2\">",
            "<section id=\"section\">",
        ] {
            assert!(html.contains(part), "{part} in {html}");
        }
    }
}
