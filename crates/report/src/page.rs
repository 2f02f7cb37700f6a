//! The page that every report is.

use std::fmt::Write as _;

use super::text::escape;

/// A self-contained HTML page under construction: one file, no script, nothing loaded.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// An empty page.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            body: format!("<h1>{}</h1>", escape(title)),
        }
    }

    /// The sentence that says it all, from HTML.
    pub fn headline(&mut self, html: &str) {
        let _ = write!(self.body, "<p class=\"headline\">{html}</p>");
    }

    /// A paragraph of text.
    pub fn paragraph(&mut self, text: &str) {
        let _ = write!(self.body, "<p>{}</p>", escape(text));
    }

    /// A heading and what follows it, from HTML.
    pub fn section(&mut self, heading: &str, html: &str) {
        let _ = write!(
            self.body,
            "<section><h2>{}</h2>{html}</section>",
            escape(heading)
        );
    }

    /// HTML as it is.
    pub fn push(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// Charts side by side where there is room.
    #[must_use]
    pub fn grid(charts: impl IntoIterator<Item = String>) -> String {
        let mut html = String::from("<div class=\"grid\">");
        for chart in charts {
            html.push_str(&chart);
        }
        html.push_str("</div>");
        html
    }

    /// The whole page.
    #[must_use]
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
