//! The schema straight from the text, for the bodies that everybody sends.
//!
//! It says yes only where it is sure: plain strings, numbers of a usual size, every member once.
//! Anything else (an escape, a repeated member, a refusal) is left to the reader and to
//! [`accepts`](super::accepts()), whose verdict counts.

use super::patterns::{is_amount, is_condition_uri, is_digest, is_fulfillment, is_key};
use crate::json::{Limits, parse};

/// Whether a text is JSON that follows the schema of its operation: what [`accepts`](super::accepts())
/// says of what [`parse`](crate::json::parse()) reads, in a fraction of the time.
#[must_use]
pub fn accepts_text(text: &[u8]) -> bool {
    is_plainly_accepted(text) || parse(text).is_ok_and(|body| super::accepts(&body))
}

/// Whether the text is accepted without doubt; `false` says nothing.
pub(super) fn is_plainly_accepted(text: &[u8]) -> bool {
    if text.len() > Limits::default().bytes {
        return false;
    }
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let mut scan = Scan { text, at: 0 };
    scan.document().is_some()
}

/// Goes over the text once; `None` is doubt.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

/// What an input or an asset shows of the operation.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Operation {
    Create,
    Transfer,
}

type Sure<T> = Option<T>;

impl<'a> Scan<'a> {
    fn document(&mut self) -> Sure<()> {
        let (mut asset, mut operation, mut inputs) = (None, None, (0, None));
        self.space();
        self.members(0x7f, |scan, name| {
            let bit = match name {
                "asset" => {
                    asset = Some(scan.asset()?);
                    0
                }
                "id" => {
                    scan.null_or(|scan| scan.text_like(is_digest))?;
                    1
                }
                "inputs" => {
                    inputs = scan.inputs()?;
                    2
                }
                "metadata" => {
                    scan.null_or(|scan| scan.any_object(1, DEEPEST))?;
                    3
                }
                "operation" => {
                    operation = match scan.string()? {
                        "TRANSFER" => Some(Operation::Transfer),
                        "CREATE" => Some(Operation::Create),
                        _ => return None,
                    };
                    4
                }
                "outputs" => {
                    scan.items(Self::output)?;
                    5
                }
                "version" => {
                    scan.text_like(|text| text == "2.0")?;
                    6
                }
                _ => return None,
            };
            Some(bit)
        })?;
        self.space();
        let (count, spends) = inputs;
        let right_count = match operation? {
            Operation::Create => count == 1,
            Operation::Transfer => count > 0,
        };
        let agree = asset == operation && spends == operation && right_count;
        (agree && self.at == self.text.len()).then_some(())
    }

    /// The operation whose asset this is.
    fn asset(&mut self) -> Sure<Operation> {
        let mut operation = None;
        self.members(1, |scan, name| {
            operation = Some(match name {
                "data" => {
                    scan.null_or(|scan| scan.any_object(0, DEEPEST))?;
                    Operation::Create
                }
                "id" => {
                    scan.text_like(is_digest)?;
                    Operation::Transfer
                }
                _ => return None,
            });
            Some(0)
        })?;
        operation
    }

    /// How many inputs there are, and the operation whose they are.
    fn inputs(&mut self) -> Sure<(usize, Option<Operation>)> {
        let (mut count, mut operation) = (0, None);
        self.items(|scan| {
            let found = scan.input()?;
            if *operation.get_or_insert(found) != found {
                return None;
            }
            count += 1;
            Some(())
        })?;
        Some((count, operation))
    }

    fn input(&mut self) -> Sure<Operation> {
        let mut operation = Operation::Create;
        self.members(7, |scan, name| {
            Some(match name {
                "fulfillment" => {
                    scan.text_like(is_fulfillment)?;
                    0
                }
                "fulfills" => {
                    scan.null_or(|scan| {
                        operation = Operation::Transfer;
                        scan.link()
                    })?;
                    1
                }
                "owners_before" => {
                    scan.keys()?;
                    2
                }
                _ => return None,
            })
        })?;
        Some(operation)
    }

    fn link(&mut self) -> Sure<()> {
        self.members(3, |scan, name| {
            Some(match name {
                "output_index" => {
                    scan.whole_number()?;
                    0
                }
                "transaction_id" => {
                    scan.text_like(is_digest)?;
                    1
                }
                _ => return None,
            })
        })
    }

    fn output(&mut self) -> Sure<()> {
        self.members(7, |scan, name| {
            Some(match name {
                "amount" => {
                    scan.text_like(is_amount)?;
                    0
                }
                "condition" => {
                    scan.condition()?;
                    1
                }
                "public_keys" => {
                    scan.keys()?;
                    2
                }
                _ => return None,
            })
        })
    }

    fn condition(&mut self) -> Sure<()> {
        self.members(3, |scan, name| {
            Some(match name {
                "details" => {
                    scan.details(DEEPEST)?;
                    0
                }
                "uri" => {
                    scan.text_like(is_condition_uri)?;
                    1
                }
                _ => return None,
            })
        })
    }

    fn details(&mut self, levels_left: usize) -> Sure<()> {
        let levels_left = levels_left.checked_sub(1)?;
        let (mut kind, mut members) = (None, 0_u8);
        self.members_at_most(|scan, name| {
            let bit = match name {
                "type" => {
                    kind = Some(scan.string()?);
                    0
                }
                "public_key" => {
                    scan.text_like(is_key)?;
                    1
                }
                "threshold" => {
                    let threshold = scan.whole_number()?;
                    (1..=100).contains(&threshold).then_some(2)?
                }
                "subconditions" => {
                    scan.items(|scan| scan.details(levels_left))?;
                    3
                }
                _ => return None,
            };
            members |= 1 << bit;
            Some(bit)
        })?;
        match (kind?, members) {
            ("ed25519-sha-256", 0b0011) | ("threshold-sha-256", 0b1101) => Some(()),
            _ => None,
        }
    }

    fn keys(&mut self) -> Sure<()> {
        self.null_or(|scan| scan.items(|scan| scan.text_like(is_key)))
    }

    /// An object with any members, at least so many, whose numbers are of a usual size.
    fn any_object(&mut self, least: usize, levels_left: usize) -> Sure<()> {
        let levels_left = levels_left.checked_sub(1)?;
        self.take(b'{')?;
        self.space();
        let mut count = 0;
        if self.take(b'}').is_some() {
            return (least == 0).then_some(());
        }
        loop {
            self.string()?;
            self.colon()?;
            self.any(levels_left)?;
            count += 1;
            self.space();
            if self.take(b'}').is_some() {
                return (count >= least).then_some(());
            }
            self.take(b',')?;
            self.space();
        }
    }

    fn any(&mut self, levels_left: usize) -> Sure<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'{' => self.any_object(0, levels_left),
            b'[' => {
                let levels_left = levels_left.checked_sub(1)?;
                self.items(|scan| scan.any(levels_left))
            }
            b'n' => self.word("null"),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'-' => {
                self.at += 1;
                self.number()
            }
            _ => self.number(),
        }
    }

    /// A number without an exponent, of a usual size, so a finite one.
    fn number(&mut self) -> Sure<()> {
        self.digits()?;
        if self.take(b'.').is_some() {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                self.at += 1;
            }
            if self.at == start {
                return None;
            }
        }
        (!matches!(self.peek(), Some(b'.' | b'e' | b'E'))).then_some(())
    }

    /// An object with exactly the members whose bits are set in `wanted`, each once; `member` reads a
    /// value and gives the number of the member's bit.
    fn members(
        &mut self,
        wanted: u8,
        member: impl FnMut(&mut Self, &'a str) -> Sure<u8>,
    ) -> Sure<()> {
        (self.members_at_most(member)? == wanted).then_some(())
    }

    /// An object whose members come at most once each; gives their bits.
    fn members_at_most(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str) -> Sure<u8>,
    ) -> Sure<u8> {
        self.take(b'{')?;
        self.space();
        let mut seen = 0;
        loop {
            let name = self.string()?;
            self.colon()?;
            let bit = 1 << member(self, name)?;
            if seen & bit != 0 {
                return None;
            }
            seen |= bit;
            self.space();
            if self.take(b'}').is_some() {
                return Some(seen);
            }
            self.take(b',')?;
            self.space();
        }
    }

    fn items(&mut self, mut item: impl FnMut(&mut Self) -> Sure<()>) -> Sure<()> {
        self.take(b'[')?;
        self.space();
        if self.take(b']').is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            self.space();
            if self.take(b']').is_some() {
                return Some(());
            }
            self.take(b',')?;
            self.space();
        }
    }

    fn null_or(&mut self, other: impl FnOnce(&mut Self) -> Sure<()>) -> Sure<()> {
        if self.peek()? == b'n' {
            return self.word("null");
        }
        other(self)
    }

    fn text_like(&mut self, pattern: impl Fn(&str) -> bool) -> Sure<()> {
        pattern(self.string()?).then_some(())
    }

    fn word(&mut self, word: &str) -> Sure<()> {
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += word.len();
        found.then_some(())
    }

    /// A number of 1 to 18 digits without a sign, a fraction or an exponent.
    fn whole_number(&mut self) -> Sure<u64> {
        let digits = self.digits()?;
        if matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        digits.parse().ok()
    }

    /// 1 to 18 digits, the first of several no zero.
    fn digits(&mut self) -> Sure<&'a str> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = self.text.get(start..self.at)?;
        let plain = match digits.len() {
            1 => true,
            2..=18 => !digits.starts_with('0'),
            _ => false,
        };
        plain.then_some(digits)
    }

    /// A string without escapes.
    fn string(&mut self) -> Sure<&'a str> {
        self.take(b'"')?;
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let length = rest
            .iter()
            .position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        self.at += length;
        self.take(b'"')?;
        self.text.get(start..start + length)
    }

    fn colon(&mut self) -> Sure<()> {
        self.space();
        self.take(b':')?;
        self.space();
        Some(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Sure<()> {
        if self.peek()? != byte {
            return None;
        }
        self.at += 1;
        Some(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }
}

/// Deeper bodies are left to the reader, which counts.
const DEEPEST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Object;
    use crate::{Create, KeyPair, Output, Transaction, Transfer};

    fn both() -> [Transaction; 2] {
        let pairs = [1, 2, 3].map(|seed| KeyPair::from_seed([seed; 32]));
        let keys = pairs.each_ref().map(KeyPair::public);
        let create = Create::new()
            .asset(Object::new().with("frame", "steel").with("n", -7_i64))
            .signer(keys[0])
            .output(Output::to(&keys, 3).unwrap())
            .output(Output::to(&keys[..1], 5).unwrap())
            .sign(&[&pairs[0]])
            .unwrap();
        let transfer = Transfer::of(&create)
            .metadata(Object::new().with("_", "x"))
            .spend(&create, 0)
            .output(Output::to(&keys[1..2], 3).unwrap())
            .sign(&pairs.each_ref())
            .unwrap();
        [create, transfer]
    }

    #[test]
    fn what_everybody_sends_is_accepted_without_reading_it_twice() {
        for transaction in both() {
            let text = transaction.text();
            assert!(is_plainly_accepted(text.as_bytes()), "{text}");
            let compact = crate::json::canonical(&transaction.body().clone().into());
            assert!(is_plainly_accepted(compact.as_bytes()), "{compact}");
        }
    }

    #[test]
    fn doubt_is_left_to_the_reader_and_its_verdict_counts() {
        let [create, _] = both();
        let text = create.text();
        for (from, to, verdict) in [
            ("\"frame\"", "\"fr\\u0061me\"", true),
            ("-7", "-7.5", true),
            ("-7", "-7.", false),
            ("-7", "7.25e3", true),
            ("-7", "07.5", false),
            ("-7", "1e999", false),
            (
                "\"version\": \"2.0\"",
                "\"version\": 2, \"version\": \"2.0\"",
                true,
            ),
            (
                "\"version\": \"2.0\"",
                "\"version\": \"2.0\", \"version\": 2",
                false,
            ),
            ("\"CREATE\"", "\"TRANSFER\"", false),
            ("\"metadata\": null", "\"metadata\": {}", false),
            (
                "\"metadata\": null",
                "\"metadata\": {\"a\": [1, {}, null, true, \"\"]}",
                true,
            ),
        ] {
            assert!(text.contains(from), "{from}");
            let changed = text.replace(from, to);
            assert_eq!(accepts_text(changed.as_bytes()), verdict, "{changed}");
        }
        for end in 0..text.len() {
            assert!(!accepts_text(&text.as_bytes()[..end]));
        }
        assert!(!accepts_text(format!("{text}x").as_bytes()));
        assert!(accepts_text(format!(" {text}\n").as_bytes()));
    }
}
