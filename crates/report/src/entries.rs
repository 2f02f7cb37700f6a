//! Names and values, one pair a line.

use crate::html::tag;
use crate::text::escape;

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
    use super::*;

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
