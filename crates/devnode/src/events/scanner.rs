//! Tokens of the query language (`libs/pubsub/query/syntax/scanner.go` of CometBFT 0.38).

use super::query::{Operator, start_of_day};
use crate::chain::time::BlockTime;

/// A token with its text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Tag(String),
    Text(String),
    Number(String),
    Time(String),
    Date(String),
    And,
    Operator(Operator),
}

/// What a token is, by the names that errors use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Invalid,
    Tag,
    Text,
    Number,
    Time,
    Date,
    And,
    Contains,
    Exists,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Kind {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Invalid => "invalid token",
            Self::Tag => "tag",
            Self::Text => "string",
            Self::Number => "number",
            Self::Time => "timestamp",
            Self::Date => "datestamp",
            Self::And => "AND operator",
            Self::Contains => "CONTAINS operator",
            Self::Exists => "EXISTS operator",
            Self::Equal => "= operator",
            Self::Less => "< operator",
            Self::LessOrEqual => "<= operator",
            Self::Greater => "> operator",
            Self::GreaterOrEqual => ">= operator",
        }
    }
}

impl Token {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Tag(_) => Kind::Tag,
            Self::Text(_) => Kind::Text,
            Self::Number(_) => Kind::Number,
            Self::Time(_) => Kind::Time,
            Self::Date(_) => Kind::Date,
            Self::And => Kind::And,
            Self::Operator(Operator::Contains) => Kind::Contains,
            Self::Operator(Operator::Exists) => Kind::Exists,
            Self::Operator(Operator::Equal) => Kind::Equal,
            Self::Operator(Operator::Less) => Kind::Less,
            Self::Operator(Operator::LessOrEqual) => Kind::LessOrEqual,
            Self::Operator(Operator::Greater) => Kind::Greater,
            Self::Operator(Operator::GreaterOrEqual) => Kind::GreaterOrEqual,
        }
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
    pub(super) fn next(&mut self) -> Result<Option<Token>, String> {
        self.take_while(char::is_whitespace);
        self.token_at = self.at;
        let Some(first) = self.peek() else {
            return Ok(None);
        };
        if first.is_ascii_digit() {
            return Ok(Some(self.number()));
        }
        if first == '_' || first.is_alphanumeric() {
            return self.word().map(Some);
        }
        self.at += first.len_utf8();
        match first {
            '\'' => self.string().map(Some),
            '=' => Ok(Some(Token::Operator(Operator::Equal))),
            '<' => Ok(Some(Token::Operator(
                self.or_equal(Operator::Less, Operator::LessOrEqual),
            ))),
            '>' => Ok(Some(Token::Operator(
                self.or_equal(Operator::Greater, Operator::GreaterOrEqual),
            ))),
            other => Err(format!("invalid input {other} at offset {}", self.at)),
        }
    }

    fn or_equal(&mut self, plain: Operator, or_equal: Operator) -> Operator {
        if self.peek() == Some('=') {
            self.at += 1;
            return or_equal;
        }
        plain
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        self.take_while(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            self.at += 1;
            self.take_while(|c| c.is_ascii_digit());
        }
        Token::Number(self.text[start..self.at].to_owned())
    }

    fn string(&mut self) -> Result<Token, String> {
        let text = self.take_while(|c| c != '\'').to_owned();
        if self.peek().is_none() {
            return Err("EOF".to_owned());
        }
        self.at += 1;
        Ok(Token::Text(text))
    }

    fn word(&mut self) -> Result<Token, String> {
        let word = self.take_while(|c| matches!(c, '.' | '_' | '-') || c.is_alphanumeric());
        let spaced = self.peek() == Some(' ');
        match word {
            "TIME" if spaced => {
                self.at += 1;
                let text = self
                    .take_while(|c| c.is_ascii_digit() || "-T:+Z".contains(c))
                    .to_owned();
                if BlockTime::parse(&text).is_none() {
                    return Err(format!("invalid TIME value: parsing time {text:?}"));
                }
                Ok(Token::Time(text))
            }
            "DATE" if spaced => {
                self.at += 1;
                let text = self
                    .take_while(|c| c.is_ascii_digit() || c == '-')
                    .to_owned();
                if start_of_day(&text).is_none() {
                    return Err(format!("invalid DATE value: parsing time {text:?}"));
                }
                Ok(Token::Date(text))
            }
            "AND" => Ok(Token::And),
            "EXISTS" => Ok(Token::Operator(Operator::Exists)),
            "CONTAINS" => Ok(Token::Operator(Operator::Contains)),
            tag => Ok(Token::Tag(tag.to_owned())),
        }
    }
}
