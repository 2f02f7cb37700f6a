//! The page that every report is.

use crate::html::{link, tag};
use crate::text::escape;

/// A self-contained HTML page under construction: one file, no script, nothing loaded.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            body: tag("h1", &escape(title)),
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
        let heading = tag("h2", &escape(heading));
        self.push(&tag("section", &(heading + html)));
    }

    /// A heading and what follows it, from HTML, folded until it is asked for; printed it is open.
    pub fn fold(&mut self, heading: &str, html: &str) {
        let summary = tag("summary", &tag("h2", &escape(heading)));
        self.push(&tag("details class=\"fold\"", &(summary + html)));
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

    /// The whole page.
    pub fn html(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{}</title><style>{STYLE}</style></head><body><main>{}</main></body></html>\n",
            escape(&self.title),
            self.body
        )
    }
}

const STYLE: &str = include_str!("page.css");
