//! The query language of subscriptions and searches (`libs/pubsub/query` of CometBFT 0.38):
//! `tm.event='Tx' AND tx.height>5 AND app.key EXISTS`.

use std::cmp::Ordering;

use super::scanner::{Kind, Scanner, Token};
use crate::chain::time::BlockTime;

/// A parsed query: a conjunction of conditions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    pub(crate) conditions: Vec<Condition>,
}

/// `tag operator argument`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Condition {
    pub(crate) tag: String,
    pub(crate) operator: Operator,
    pub(crate) argument: Option<Argument>,
}

/// How a value is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Contains,
    Exists,
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// What it is compared with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Argument {
    Text(String),
    /// The number and how it was written.
    Number(f64, String),
    Time(String),
    Date(String),
}

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    /// The wire's text, with the offset in bytes.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut scanner = Scanner::new(text);
        let mut conditions = vec![condition(&mut scanner)?];
        loop {
            // An error of the scanner shows as an invalid token here, as in the original.
            let token = match scanner.next() {
                Ok(Some(token)) => token.kind,
                Ok(None) => return Ok(Self { conditions }),
                Err(_) => Kind::Invalid,
            };
            if token != Kind::And {
                // 6 is the number of the token AND, which the original shows instead of its name.
                return Err(format!(
                    "offset {}: got {}, want 6",
                    scanner.token_at,
                    token.label()
                ));
            }
            conditions.push(condition(&mut scanner)?);
        }
    }

    /// Whether an event with these tags and values matches: every condition by at least one value.
    pub(crate) fn matches(&self, tags: &Tags<'_>) -> bool {
        self.conditions.iter().all(|condition| {
            tags.iter().any(|(tag, values)| {
                *tag == condition.tag && values.iter().any(|value| condition.accepts(value))
            })
        })
    }

    /// The normal form, by which subscriptions are distinguished.
    pub(crate) fn text(&self) -> String {
        let conditions: Vec<String> = self.conditions.iter().map(Condition::text).collect();
        conditions.join(" AND ")
    }
}

/// An event's tags with their values.
pub(crate) type Tags<'a> = [(&'a str, Vec<&'a str>)];

impl Condition {
    /// Whether a value satisfies the condition.
    pub(crate) fn accepts(&self, value: &str) -> bool {
        let Some(argument) = &self.argument else {
            return self.operator == Operator::Exists;
        };
        let ordering = match argument {
            Argument::Text(text) if self.operator == Operator::Contains => {
                return value.contains(text.as_str());
            }
            Argument::Text(text) => return self.operator == Operator::Equal && value == text,
            Argument::Number(number, _) => {
                leading_number(value).and_then(|value| value.partial_cmp(number))
            }
            Argument::Time(time) => compare_times(BlockTime::parse(value), BlockTime::parse(time)),
            Argument::Date(date) => compare_times(start_of_day(value), start_of_day(date)),
        };
        ordering.is_some_and(|ordering| self.operator.admits(ordering))
    }

    fn text(&self) -> String {
        let head = format!("{} {}", self.tag, self.operator.symbol());
        match &self.argument {
            None => head,
            Some(Argument::Text(text)) => format!("{head} '{text}'"),
            Some(Argument::Number(_, text)) => format!("{head} {text}"),
            Some(Argument::Time(text)) => format!("{head} TIME {text}"),
            Some(Argument::Date(text)) => format!("{head} DATE {text}"),
        }
    }
}

impl Operator {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Contains => "CONTAINS",
            Self::Exists => "EXISTS",
            Self::Equal => "=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    fn admits(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
            Self::Contains | Self::Exists => false,
        }
    }
}

fn compare_times(value: Option<BlockTime>, argument: Option<BlockTime>) -> Option<Ordering> {
    Some(value?.cmp(&argument?))
}

pub(super) fn start_of_day(date: &str) -> Option<BlockTime> {
    BlockTime::parse(&format!("{date}T00:00:00Z"))
}

/// The number that a value starts with: `8atom` counts as 8.
fn leading_number(value: &str) -> Option<f64> {
    let whole = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let fraction = value[whole..].strip_prefix('.').map_or(0, |rest| {
        rest.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())
    });
    let end = if fraction > 0 {
        whole + 1 + fraction
    } else {
        whole
    };
    if whole == 0 {
        None
    } else {
        value[..end].parse().ok()
    }
}

fn condition(scanner: &mut Scanner<'_>) -> Result<Condition, String> {
    const OPERATORS: [Operator; 7] = [
        Operator::LessOrEqual,
        Operator::GreaterOrEqual,
        Operator::Less,
        Operator::Greater,
        Operator::Equal,
        Operator::Contains,
        Operator::Exists,
    ];
    let tag = require(scanner, &[Kind::Tag])?.text.to_owned();
    let Kind::Operator(operator) = require(scanner, &OPERATORS.map(Kind::Operator))?.kind else {
        unreachable!("only operators were wanted")
    };
    let wanted: &[Kind] = match operator {
        Operator::Exists => &[],
        Operator::Contains => &[Kind::Text],
        Operator::Equal => &[Kind::Number, Kind::Time, Kind::Date, Kind::Text],
        _ => &[Kind::Number, Kind::Time, Kind::Date],
    };
    let argument = match wanted {
        [] => None,
        wanted => {
            let token = require(scanner, wanted)?;
            let text = token.text.to_owned();
            Some(match token.kind {
                Kind::Number => Argument::Number(text.parse().unwrap_or(f64::NAN), text),
                Kind::Time => Argument::Time(text),
                Kind::Date => Argument::Date(text),
                _ => Argument::Text(text),
            })
        }
    };
    Ok(Condition {
        tag,
        operator,
        argument,
    })
}

/// The next token, if it is of a wanted kind.
fn require<'a>(scanner: &mut Scanner<'a>, wanted: &[Kind]) -> Result<Token<'a>, String> {
    let token = scanner
        .next()
        .map_err(|fault| format!("offset {}: {fault}", scanner.token_at))?;
    let Some(token) = token else {
        return Err(format!("offset {}: EOF", scanner.token_at));
    };
    if wanted.contains(&token.kind) {
        return Ok(token);
    }
    let labels: Vec<String> = wanted.iter().map(|kind| kind.label()).collect();
    let wanted = match labels.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    };
    Err(format!(
        "offset {}: got {}, wanted {wanted}",
        scanner.token_at,
        token.kind.label()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Query::parse(text).unwrap_err()
    }

    #[test]
    fn queries_have_a_normal_form() {
        let query =
            Query::parse("  tm.event='Tx'  AND tx.height>=5 AND app.key EXISTS AND a CONTAINS 'b'")
                .unwrap();
        assert_eq!(
            query.text(),
            "tm.event = 'Tx' AND tx.height >= 5 AND app.key EXISTS AND a CONTAINS 'b'"
        );
    }

    #[test]
    fn errors_name_the_offset() {
        assert_eq!(error(""), "offset 0: EOF");
        assert_eq!(error("a ="), "offset 3: EOF");
        assert_eq!(error("="), "offset 0: got = operator, wanted tag");
        assert_eq!(
            error("a b"),
            "offset 2: got tag, wanted <= operator, >= operator, < operator, > operator, = operator, CONTAINS operator or EXISTS operator"
        );
        assert_eq!(
            error("a < 'x'"),
            "offset 4: got string, wanted number, timestamp or datestamp"
        );
        assert_eq!(error("a = 1 b"), "offset 6: got tag, want 6");
        assert_eq!(error("a = 'x"), "offset 4: EOF");
    }

    #[test]
    fn conditions_look_at_every_value_of_their_tag() {
        let tags: &Tags<'_> = &[
            ("tm.event", vec!["Tx"]),
            ("tx.height", vec!["7"]),
            ("app.key", vec!["a", "b"]),
        ];
        for (text, expected) in [
            ("tm.event='Tx'", true),
            ("tm.event='NewBlock'", false),
            ("tm.event='Tx' AND tx.height=7", true),
            ("tm.event='Tx' AND tx.height='7'", true),
            ("tx.height<7", false),
            ("tx.height<=7.5", true),
            ("app.key='b'", true),
            ("app.key CONTAINS 'c'", false),
            ("app.value EXISTS", false),
            ("tx.height EXISTS", true),
            ("tx.height > DATE 2020-01-01", false),
        ] {
            assert_eq!(
                Query::parse(text).unwrap().matches(tags),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_may_have_a_unit() {
        assert_eq!(leading_number("6.5stake"), Some(6.5));
        assert_eq!(leading_number("8."), Some(8.0));
        assert_eq!(leading_number("x"), None);
    }
}
