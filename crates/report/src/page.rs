//! The page that every report is, and the elements of it.

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

    /// The sentence with the most important result, of text; what stands between two `**` is bold. It is one line of a
    /// page of 1,000 pixels; what is longer goes on in a paragraph, as a sentence of its own where a clause ended.
    pub fn headline(&mut self, text: &str) {
        let (line, rest) = first_line(text);
        let is_whole = !line.ends_with(',');
        let letters = letters(line);
        let line_of = format!("p class=\"headline\" style=\"--n:{letters}\"");
        let line = if is_whole {
            sentence(line)
        } else {
            line.to_owned()
        };
        self.push(&tag(&line_of, &emphasized(&line)));
        if let Some(rest) = rest {
            let more = if is_whole { "more next" } else { "more" };
            let more = format!("p class=\"{more}\"");
            self.push(&tag(&more, &emphasized(&sentence(rest))));
        }
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

    /// A heading and a text with its own lines and blanks, folded.
    pub fn preformatted(&mut self, heading: &str, text: &str) {
        self.fold(heading, &tag("pre", &escape(text)));
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
            mut name => {
                name.truncate(LONGEST_NAME);
                name
            }
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

/// Text whose parts between two `**` are bold.
fn emphasized(text: &str) -> String {
    let escaped = escape(text);
    let parts = escaped.split("**").enumerate();
    let html = parts.map(|(number, part)| match number % 2 {
        0 => part.to_owned(),
        _ => tag("b", part),
    });
    html.collect()
}

/// As many sentences as fit a line, or else as many clauses, and the others. Within a list it keeps its comma.
fn first_line(text: &str) -> (&str, Option<&str>) {
    if letters(text) <= LINE {
        return (text, None);
    }
    let is_end = |at: usize| {
        let line = &text[..at];
        let is_whole = line.matches("**").count().is_multiple_of(2)
            && line.matches('(').count() == line.matches(')').count();
        is_whole && letters(line) <= LINE && text[at + 1..].starts_with(' ')
    };
    let last = |marks: &[char]| {
        let marks = text.match_indices(marks);
        marks.map(|(at, _)| at).rfind(|at| is_end(*at))
    };
    match last(&[';', '.']).or_else(|| last(&[',', ':'])) {
        Some(at) => {
            let comma = usize::from(text[at..].starts_with(','));
            (&text[..at + comma], Some(text[at + 1..].trim_start()))
        }
        None => (text, None),
    }
}

fn sentence(text: &str) -> String {
    format!("{}.", text.trim().trim_end_matches('.'))
}

fn letters(text: &str) -> usize {
    text.chars().filter(|letter| *letter != '*').count()
}

/// Letters of what a link to a section calls it.
const LONGEST_NAME: usize = 48;
/// Letters of the headline that fit a page of 1,000 pixels.
const LINE: usize = 108;

/// The sign after a heading that leads to it, for a reader who wants to send it on.
fn link_to(name: &str) -> String {
    format!(" <a class=\"to\" href=\"#{name}\" aria-label=\"link to this section\">#</a>")
}

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Of [`SCRIPT`], for the policy (CSP level 3, W3C, 6.7.3.3); a test computes it.
const SCRIPT_HASH: &str = "sha256-L8P6dRzuWm1dBVsdDlXVbwoFzjUdzS6xUSYN56q1J/E=";

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

/// A list of names with their values.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    pairs: Vec<(String, String)>,
}

impl Entries {
    /// Adds a pair; a name that is empty continues the value before.
    pub fn add(&mut self, name: &str, value: impl Into<String>) {
        self.pairs.push((name.to_owned(), value.into()));
    }

    /// As text for a terminal, the values below each other.
    pub fn text(&self) -> String {
        let longest = self.pairs.iter().map(|(name, _)| name.chars().count());
        let width = longest.fold(LEAST_WIDTH, |width, name| width.max(name + 2));
        let line = |(name, value): &(String, String)| format!("{name:<width$}{value}\n");
        self.pairs.iter().map(line).collect()
    }

    /// As a list of HTML; nothing where there are none.
    pub fn html(&self) -> String {
        if self.pairs.is_empty() {
            return String::new();
        }
        let pair = |(name, value): &(String, String)| {
            tag("dt", &escape(name)) + &tag("dd", &escape(value))
        };
        tag("dl", &self.pairs.iter().map(pair).collect::<String>())
    }
}

/// So that several lists of a program stand in line.
const LEAST_WIDTH: usize = 13;

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
    fn a_headline_is_one_line_and_what_is_longer_goes_on_below() {
        let short = "knee **1 to 2/s**; nothing limited it.";
        assert_eq!(first_line(short), (short, None));
        let of = |text: &'static str, line, rest| assert_eq!(first_line(text), (line, Some(rest)));
        of(
            "against before: after is **worse** in commit.p50 +14 % (+4 % to +25 %), commit.p95 +12 % (+3 %, +21 %), **better** in sent",
            "against before: after is **worse** in commit.p50 +14 % (+4 % to +25 %), commit.p95 +12 % (+3 %, +21 %),",
            "**better** in sent",
        );
        of(
            "**undecided**: it is not shown that B is worse, nor that it is not by more than 5 %; open: commit.p50, commit.p95, lost.share",
            "**undecided**: it is not shown that B is worse, nor that it is not by more than 5 %",
            "open: commit.p50, commit.p95, lost.share",
        );
        // Neither a bold part nor what is in brackets is cut, nor a number.
        of(
            "it took 1,000.5/s, **all of the bold words, which are so many that they do not end in time to be seen on this one line**",
            "it took 1,000.5/s,",
            "**all of the bold words, which are so many that they do not end in time to be seen on this one line**",
        );
        let endless = "a".repeat(200);
        assert_eq!(first_line(&endless), (&*endless, None));
    }

    #[test]
    fn each_part_of_a_headline_is_a_sentence() {
        let mut page = Page::new("a page");
        let long = "a".repeat(100);
        page.headline(&format!("{long}; **worse** in commit.p50."));
        page.headline(&format!("{long}, commit.p95"));
        let html = page.html();
        for part in [
            "aaa.</p><p class=\"more next\"><b>worse</b> in commit.p50.</p>",
            "aaa,</p><p class=\"more\">commit.p95.</p>",
        ] {
            assert!(html.contains(part), "{part} in {html}");
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

    #[test]
    fn values_stand_below_each_other() {
        let mut entries = Entries::default();
        entries.add("rate", "1/s");
        entries.add("", "on average");
        assert_eq!(
            entries.text(),
            "rate         1/s\n             on average\n"
        );
        entries.add("transactions", "<5>");
        assert!(entries.text().contains("transactions  <5>"));
        assert!(entries.html().contains("<dd>&lt;5&gt;</dd>"));
        assert_eq!(Entries::default().html(), "");
    }
}
