//! The id of a request as the node echoes it.

use std::borrow::Cow;

use crate::json::{Kind, Scanner, quote, unquote};

/// The JSON text of an id, exactly as the node writes it into the answer: a string with Go's
/// escapes, or a whole number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId<'a>(Cow<'a, str>);

impl<'a> RequestId<'a> {
    /// The id of answers to requests that have none: URI requests and panics.
    pub const NONE: RequestId<'static> = RequestId(Cow::Borrowed("-1"));

    /// A number.
    pub fn number(number: i64) -> RequestId<'static> {
        RequestId(Cow::Owned(number.to_string()))
    }

    /// The text to be written behind `"id":`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A copy that outlives the request.
    pub fn to_static(&self) -> RequestId<'static> {
        RequestId(Cow::Owned(self.0.clone().into_owned()))
    }

    /// The id at the scanner's position, if it is one that the node echoes letter by letter.
    pub(super) fn verbatim(scanner: &mut Scanner<'a>) -> Option<Self> {
        let first = scanner.peek()?;
        let start = scanner.position();
        if first == b'"' {
            scanner.verbatim()?;
        } else {
            exact_number(scanner)?;
        }
        let text = std::str::from_utf8(scanner.since(start)).ok()?;
        Some(Self(Cow::Borrowed(text)))
    }

    /// A scanned value as an id; none if it is of another kind, or a number out of range.
    pub(super) fn of(value: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner::new(value, 0);
        if let Some(id) = Self::verbatim(&mut scanner)
            && scanner.rest().is_empty()
        {
            return Some(id);
        }
        match Kind::of(value) {
            Kind::String => {
                let mut text = Vec::with_capacity(value.len());
                quote(&mut text, &unquote(value));
                String::from_utf8(text)
                    .ok()
                    .map(|text| Self(Cow::Owned(text)))
            }
            Kind::Number => whole_number(value).map(RequestId::number),
            _ => None,
        }
    }
}

/// Past a number that every reader takes for the same and writes in the same way: not "-0", not
/// "01", no fraction, no exponent.
fn exact_number(scanner: &mut Scanner<'_>) -> Option<()> {
    let rest = scanner.rest();
    let digits = rest.strip_prefix(b"-").unwrap_or(rest);
    let is_negative = digits.len() < rest.len();
    let len = digits.iter().position(|byte| !byte.is_ascii_digit());
    let len = len.unwrap_or(digits.len());
    let is_exact = match digits.first()? {
        b'0' => len == 1 && !is_negative,
        _ => (1..=EXACT_DIGITS).contains(&len),
    };
    scanner.advance(len + usize::from(is_negative));
    (is_exact && !matches!(digits.get(len), Some(b'.' | b'e' | b'E'))).then_some(())
}

/// Largest number of digits that every reader takes for the same number: a double has 53 bits.
const EXACT_DIGITS: usize = 15;

/// A number as Go makes an `int` of it: read as a 64-bit float, its fraction cut off. None if it is
/// too large for a float.
fn whole_number(value: &[u8]) -> Option<i64> {
    let number: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    // What an int64 cannot hold becomes the least one on amd64.
    let fits = (-TWO_TO_63..TWO_TO_63).contains(&number);
    #[allow(clippy::cast_possible_truncation)]
    let whole = if fits { number as i64 } else { i64::MIN };
    number.is_finite().then_some(whole)
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
