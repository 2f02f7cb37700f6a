//! Tokens of the query language (`libs/pubsub/query/syntax/scanner.go` of CometBFT 0.38).

use super::query::{Operator, start_of_day};
use crate::chain::time::BlockTime;

/// A token and its text, a string's without the quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Invalid,
    Tag,
    Text,
    Number,
    Time,
    Date,
    And,
    Operator(Operator),
}

impl Kind {
    /// The name that errors use.
    pub(super) fn label(self) -> String {
        let name = match self {
            Self::Invalid => "invalid token",
            Self::Tag => "tag",
            Self::Text => "string",
            Self::Number => "number",
            Self::Time => "timestamp",
            Self::Date => "datestamp",
            Self::And => "AND operator",
            Self::Operator(operator) => return format!("{} operator", operator.symbol()),
        };
        name.to_owned()
    }
}

/// Takes a query apart.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// Where the last token starts, in bytes.
    pub(super) token_at: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            token_at: 0,
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// The next token, none at the end, or what is wrong.
    pub(super) fn next(&mut self) -> Result<Option<Token<'a>>, String> {
        self.take_while(char::is_whitespace);
        self.token_at = self.at;
        let Some(first) = self.peek() else {
            return Ok(None);
        };
        if first == '_' || (first.is_alphanumeric() && !first.is_ascii_digit()) {
            return self.word().map(Some);
        }
        if first == '\'' {
            return self.string().map(Some);
        }
        let kind = if first.is_ascii_digit() {
            self.number();
            Kind::Number
        } else {
            self.at += first.len_utf8();
            Kind::Operator(match first {
                '=' => Operator::Equal,
                '<' => self.or_equal(Operator::Less, Operator::LessOrEqual),
                '>' => self.or_equal(Operator::Greater, Operator::GreaterOrEqual),
                other => return Err(format!("invalid input {other} at offset {}", self.at)),
            })
        };
        let text = &self.text[self.token_at..self.at];
        Ok(Some(Token { kind, text }))
    }

    fn or_equal(&mut self, plain: Operator, or_equal: Operator) -> Operator {
        if self.peek() == Some('=') {
            self.at += 1;
            return or_equal;
        }
        plain
    }

    fn number(&mut self) {
        self.take_while(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
    }

    fn string(&mut self) -> Result<Token<'a>, String> {
        self.at += 1;
        let text = self.take_while(|c| c != '\'');
        if self.peek().is_none() {
            return Err("EOF".to_owned());
        }
        self.at += 1;
        let kind = Kind::Text;
        Ok(Token { kind, text })
    }

    fn word(&mut self) -> Result<Token<'a>, String> {
        let text = self.take_while(|c| matches!(c, '.' | '_' | '-') || c.is_alphanumeric());
        let spaced = self.peek() == Some(' ');
        let kind = match text {
            "TIME" if spaced => {
                return self.instant(Kind::Time, "-T:+Z", |text| BlockTime::parse(text).is_some());
            }
            "DATE" if spaced => {
                return self.instant(Kind::Date, "-", |text| start_of_day(text).is_some());
            }
            "AND" => Kind::And,
            "EXISTS" => Kind::Operator(Operator::Exists),
            "CONTAINS" => Kind::Operator(Operator::Contains),
            _ => Kind::Tag,
        };
        Ok(Token { kind, text })
    }

    /// The time or date behind its keyword: digits and `others`.
    fn instant(
        &mut self,
        kind: Kind,
        others: &str,
        is_good: fn(&str) -> bool,
    ) -> Result<Token<'a>, String> {
        let keyword = &self.text[self.token_at..self.at];
        self.at += 1;
        let text = self.take_while(|c| c.is_ascii_digit() || others.contains(c));
        if is_good(text) {
            return Ok(Token { kind, text });
        }
        Err(format!("invalid {keyword} value: parsing time {text:?}"))
    }
}
