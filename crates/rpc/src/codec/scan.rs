//! The fast reader: one pass over the usual forms of an answer.
//!
//! It accepts a subset of JSON (no escapes, no fractions, bounded nesting, each known field once)
//! and gives up on the rest, so that whatever it accepts means the same to the thorough reader.

use std::borrow::Cow;

use super::answer::{Answer, AnswerId, Outcome, ResultParts, Verdict};
use super::hex::decode_hash;

/// The answer, or `None` when the thorough reader must look at it.
pub(super) fn scan(body: &[u8]) -> Option<Answer<'_>> {
    usual(body).or_else(|| scan_any(body))
}

/// The answer to a transaction that was accepted, letter by letter as CometBFT 0.38 writes it:
/// nearly every answer of a run, at a third of the scanner's cost.
pub(super) fn usual(body: &[u8]) -> Option<Answer<'static>> {
    let rest = body.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let len = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, rest) = rest.split_at(len);
    let id = plain_number(digits)?;
    let rest =
        rest.strip_prefix(br#","result":{"code":0,"data":"","log":"","codespace":"","hash":""#)?;
    let (hash, end) = rest.split_at_checked(64)?;
    if end != br#""}}"# {
        return None;
    }
    let (codespace, log) = (Cow::Borrowed(""), Cow::Borrowed(""));
    let outcome = Outcome::Broadcast {
        code: 0,
        codespace,
        log,
        hash: Some(decode_hash(hash)?),
    };
    Some(Answer {
        id: AnswerId::Number(id),
        outcome,
    })
}

/// What up to 18 digits without a leading zero stand for.
#[inline]
fn plain_number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    Some(
        digits
            .iter()
            .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')),
    )
}

pub(super) fn scan_any(body: &[u8]) -> Option<Answer<'_>> {
    let mut scanner = Scanner {
        text: std::str::from_utf8(body).ok()?,
        at: 0,
    };
    let (mut id, mut result, mut error) = (None, None, None);
    let mut more = scanner.open()?;
    while more {
        match scanner.key()? {
            "id" => set(&mut id, scanner.id()?)?,
            "result" => set(&mut result, scanner.result()?)?,
            "error" => set(&mut error, scanner.error()?)?,
            _ => scanner.skip(MAX_DEPTH)?,
        }
        more = scanner.next(b'}')?;
    }
    scanner.end()?;
    let outcome = match (error, result) {
        (Some(error), _) => error,
        (None, Some(result)) => result,
        (None, None) => return None,
    };
    Some(Answer { id: id?, outcome })
}

/// Bytes at which a plain string ends or stops being plain.
const STOPS: [bool; 256] = {
    let mut stops = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        stops[byte] = true;
        byte += 1;
    }
    stops[b'"' as usize] = true;
    stops[b'\\' as usize] = true;
    stops
};

/// Deeper nesting is left to the thorough reader.
const MAX_DEPTH: u32 = 16;

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// The next byte that is not white space, without taking it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        loop {
            let byte = *bytes.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    #[inline]
    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Enters an object; whether it has a first member.
    fn open(&mut self) -> Option<bool> {
        self.take(b'{')?;
        self.first(b'}')
    }

    fn first(&mut self, close: u8) -> Option<bool> {
        let empty = self.peek()? == close;
        self.at += usize::from(empty);
        Some(!empty)
    }

    /// Past a member; whether another follows.
    #[inline]
    fn next(&mut self, close: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b',' {
            Some(true)
        } else {
            (byte == close).then_some(false)
        }
    }

    fn end(&mut self) -> Option<()> {
        self.peek().is_none().then_some(())
    }

    #[inline]
    fn key(&mut self) -> Option<&'a str> {
        let key = self.string()?;
        self.take(b':')?;
        Some(key)
    }

    /// A string without escapes.
    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().position(|byte| STOPS[*byte as usize])?;
        if rest[len] != b'"' {
            return None;
        }
        let start = self.at;
        self.at += len + 1;
        self.text.get(start..start + len)
    }

    /// A whole number of at most 18 digits.
    fn integer(&mut self) -> Option<i64> {
        let negative = self.peek()? == b'-';
        self.at += usize::from(negative);
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        let value = plain_number(&rest[..len])?;
        self.at += len;
        // "-0" is left to the other reader: its meaning is a matter of taste.
        if negative {
            (value != 0).then_some(-value)
        } else {
            Some(value)
        }
    }

    /// A whole number, bare or as a string.
    fn number(&mut self) -> Option<i64> {
        if self.peek()? != b'"' {
            return self.integer();
        }
        self.at += 1;
        // White space inside the quotes is no number.
        self.text
            .as_bytes()
            .get(self.at)
            .filter(|byte| **byte > b' ')?;
        let value = self.integer()?;
        let closed = self.text.as_bytes().get(self.at) == Some(&b'"');
        self.at += 1;
        closed.then_some(value)
    }

    fn literal(&mut self, word: &str) -> Option<()> {
        self.text.as_bytes()[self.at..]
            .starts_with(word.as_bytes())
            .then(|| self.at += word.len())
    }

    /// A string, or null for an empty one.
    fn text_or_null(&mut self) -> Option<Cow<'a, str>> {
        if self.peek()? == b'n' {
            self.literal("null")?;
            return Some(Cow::Borrowed(""));
        }
        self.string().map(Cow::Borrowed)
    }

    fn id(&mut self) -> Option<AnswerId<'a>> {
        match self.peek()? {
            b'"' => self
                .string()
                .map(|text| AnswerId::Text(Cow::Borrowed(text))),
            _ => self.integer().map(AnswerId::Number),
        }
    }

    fn hash(&mut self) -> Option<Option<[u8; 32]>> {
        // 64 hexadecimal digits need no search for the end of the string.
        if self.peek()? == b'"' {
            let rest = &self.text.as_bytes()[self.at + 1..];
            let digits = rest.get(..64).filter(|_| rest.get(64) == Some(&b'"'));
            if let Some(hash) = digits.and_then(decode_hash) {
                self.at += 66;
                return Some(Some(hash));
            }
        }
        self.string().map(|text| decode_hash(text.as_bytes()))
    }

    fn result(&mut self) -> Option<Outcome<'a>> {
        let mut parts = ResultParts::default();
        let mut hash = None;
        let mut more = self.open()?;
        while more {
            match self.key()? {
                "code" => set(&mut parts.code, u32::try_from(self.number()?).ok()?)?,
                "log" => set(&mut parts.log, self.text_or_null()?)?,
                "codespace" => set(&mut parts.codespace, self.text_or_null()?)?,
                "hash" => set(&mut hash, self.hash()?)?,
                "height" => set(&mut parts.height, u64::try_from(self.number()?).ok()?)?,
                "check_tx" => set(&mut parts.check, self.verdict()?)?,
                "tx_result" | "deliver_tx" => set(&mut parts.executed, self.verdict()?)?,
                _ => self.skip(MAX_DEPTH)?,
            }
            more = self.next(b'}')?;
        }
        parts.hash = hash.flatten();
        Some(parts.outcome())
    }

    fn verdict(&mut self) -> Option<Verdict<'a>> {
        let (mut code, mut log) = (None, None);
        let mut more = self.open()?;
        while more {
            match self.key()? {
                "code" => set(&mut code, u32::try_from(self.number()?).ok()?)?,
                "log" => set(&mut log, self.text_or_null()?)?,
                _ => self.skip(MAX_DEPTH)?,
            }
            more = self.next(b'}')?;
        }
        Some(Verdict {
            code: code.unwrap_or(0),
            log: log.unwrap_or_default(),
        })
    }

    fn error(&mut self) -> Option<Outcome<'a>> {
        let (mut code, mut message, mut data) = (None, None, None);
        let mut more = self.open()?;
        while more {
            match self.key()? {
                "code" => set(&mut code, self.integer()?)?,
                "message" => set(&mut message, self.text_or_null()?)?,
                "data" => set(&mut data, self.text_or_null()?)?,
                _ => self.skip(MAX_DEPTH)?,
            }
            more = self.next(b'}')?;
        }
        let (message, data) = (message.unwrap_or_default(), data.unwrap_or_default());
        Some(Outcome::Error {
            code: code?,
            message,
            data,
        })
    }

    /// Past a value of any kind.
    fn skip(&mut self, depth: u32) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.skip_members(depth, b'}', true),
            b'[' => self.skip_members(depth, b']', false),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => self.integer().map(drop),
        }
    }

    fn skip_members(&mut self, depth: u32, close: u8, keys: bool) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.at += 1;
        let mut more = self.first(close)?;
        while more {
            if keys {
                self.key()?;
            }
            self.skip(depth)?;
            more = self.next(close)?;
        }
        Some(())
    }
}

/// Fills a slot once; a repeated field is left to the thorough reader.
#[inline]
fn set<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}
