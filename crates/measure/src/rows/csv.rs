//! Writing fields of a table into a byte buffer.

use std::io::Write;

/// One row under construction.
pub(super) struct Row<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Row<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, first: true }
    }

    pub(super) fn integer(&mut self, value: impl itoa::Integer) -> &mut Self {
        self.separate();
        self.out
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self
    }

    pub(super) fn integer_or_empty(&mut self, value: Option<impl itoa::Integer>) -> &mut Self {
        match value {
            Some(value) => self.integer(value),
            None => self.empty(),
        }
    }

    /// A fraction with three decimals, or nothing.
    pub(super) fn decimal(&mut self, value: Option<f64>) -> &mut Self {
        self.separate();
        if let Some(value) = value {
            write!(self.out, "{value:.3}").expect("a vector takes every write");
        }
        self
    }

    /// A text, quoted as RFC 4180 asks where it has to be.
    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.separate();
        if value.contains(['"', ',', '\n', '\r']) {
            self.out.push(b'"');
            self.out
                .extend_from_slice(value.replace('"', "\"\"").as_bytes());
            self.out.push(b'"');
        } else {
            self.out.extend_from_slice(value.as_bytes());
        }
        self
    }

    pub(super) fn empty(&mut self) -> &mut Self {
        self.separate();
        self
    }

    pub(super) fn end(&mut self) {
        self.out.push(b'\n');
    }

    fn separate(&mut self) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
    }
}
