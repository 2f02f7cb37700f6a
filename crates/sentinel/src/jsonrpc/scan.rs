//! A strict scanner of JSON: exactly the texts that Go's `encoding/json` takes, bounded in depth,
//! without building anything.

/// Deepest nesting that the scanner can follow.
pub(super) const MAX_DEPTH: usize = 128;

/// Why a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// This is no JSON.
    Syntax,
    /// Nested deeper than allowed.
    Depth,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// The kind of a value that was scanned.
    pub(super) const fn of(value: &[u8]) -> Self {
        match value.first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }
}

/// A position in a text.
pub(super) struct Scanner<'a> {
    input: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Scanner<'a> {
    /// At the start of `input`, with room for `depth` levels.
    pub(super) const fn new(input: &'a [u8], depth: usize) -> Self {
        let depth = if depth < MAX_DEPTH { depth } else { MAX_DEPTH };
        Self {
            input,
            at: 0,
            depth,
        }
    }

    /// The next byte that is no white space, not taken.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.input.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Where it stands.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// What was passed since `start`.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        self.input.get(start..self.at).unwrap_or_default()
    }

    /// What is left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Past bytes that somebody else has looked at.
    pub(super) const fn advance(&mut self, len: usize) {
        self.at += len;
    }

    /// Takes `wanted`.
    #[inline]
    pub(super) fn take(&mut self, wanted: u8) -> Result<(), Fault> {
        if self.peek() != Some(wanted) {
            return Err(Fault::Syntax);
        }
        self.at += 1;
        Ok(())
    }

    /// Nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        self.peek().map_or(Ok(()), |_| Err(Fault::Syntax))
    }

    /// Enters an array or object; whether it has a first entry.
    pub(super) fn enter(&mut self, open: u8, close: u8) -> Result<bool, Fault> {
        self.take(open)?;
        self.depth = self.depth.checked_sub(1).ok_or(Fault::Depth)?;
        if self.peek() == Some(close) {
            self.leave();
            return Ok(false);
        }
        Ok(true)
    }

    /// Past an entry; whether another follows.
    pub(super) fn another(&mut self, close: u8) -> Result<bool, Fault> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.leave();
                Ok(false)
            }
            _ => Err(Fault::Syntax),
        }
    }

    const fn leave(&mut self) {
        self.at += 1;
        self.depth += 1;
    }

    /// A key with its quotes, and the colon behind it.
    pub(super) fn key(&mut self) -> Result<&'a [u8], Fault> {
        if self.peek() != Some(b'"') {
            return Err(Fault::Syntax);
        }
        let start = self.at;
        self.string()?;
        let key = &self.input[start..self.at];
        self.take(b':')?;
        Ok(key)
    }

    /// Any value, as its text.
    pub(super) fn value(&mut self) -> Result<&'a [u8], Fault> {
        self.peek().ok_or(Fault::Syntax)?;
        let start = self.at;
        self.skip()?;
        Ok(&self.input[start..self.at])
    }

    /// Past a value. Not recursive: one bit for each open level says whether it is an object.
    fn skip(&mut self) -> Result<(), Fault> {
        let (mut objects, mut open) = (0_u128, 0_usize);
        loop {
            let entered = match self.peek().ok_or(Fault::Syntax)? {
                byte @ (b'{' | b'[') => {
                    let is_object = byte == b'{';
                    let nonempty = self.enter(byte, if is_object { b'}' } else { b']' })?;
                    if nonempty {
                        objects = objects << 1 | u128::from(is_object);
                        open += 1;
                        if is_object {
                            self.key()?;
                        }
                    }
                    nonempty
                }
                byte => {
                    self.scalar(byte)?;
                    false
                }
            };
            if entered {
                continue;
            }
            // A value has ended; so may the levels around it.
            loop {
                if open == 0 {
                    return Ok(());
                }
                let is_object = objects & 1 == 1;
                if self.another(if is_object { b'}' } else { b']' })? {
                    if is_object {
                        self.key()?;
                    }
                    break;
                }
                objects >>= 1;
                open -= 1;
            }
        }
    }

    fn scalar(&mut self, first: u8) -> Result<(), Fault> {
        match first {
            b'"' => self.string(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(Fault::Syntax),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Fault> {
        if !self.input[self.at..].starts_with(word) {
            return Err(Fault::Syntax);
        }
        self.at += word.len();
        Ok(())
    }

    /// Past a string, from its first quote on. Bytes above 0x7f are not looked at: Go takes any.
    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        loop {
            let rest = &self.input[self.at..];
            let len = rest
                .iter()
                .position(|byte| STOPS[usize::from(*byte)])
                .ok_or(Fault::Syntax)?;
            self.at += len + 1;
            match rest[len] {
                b'"' => return Ok(()),
                b'\\' => self.escape(rest.get(len + 1..).unwrap_or_default())?,
                _ => return Err(Fault::Syntax),
            }
        }
    }

    /// Past what follows a backslash.
    fn escape(&mut self, rest: &[u8]) -> Result<(), Fault> {
        self.at += match rest {
            [b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"', ..] => 1,
            [b'u', digits @ ..]
                if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_hexdigit) =>
            {
                5
            }
            _ => return Err(Fault::Syntax),
        };
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.at += usize::from(self.input[self.at] == b'-');
        if self.input.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.input.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.input.get(self.at) {
            self.at += 1;
            self.at += usize::from(matches!(self.input.get(self.at), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    /// Past at least one digit.
    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.input.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(Fault::Syntax);
        }
        Ok(())
    }
}

/// Bytes at which a string ends or needs a closer look.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(input: &[u8], depth: usize) -> Result<(), Fault> {
        let mut scanner = Scanner::new(input, depth);
        scanner.value()?;
        scanner.end()
    }

    #[test]
    fn levels_are_counted() {
        for (text, depth) in [
            ("[[]]", 2),
            ("{\"a\":[{}]}", 3),
            ("1", 0),
            ("[1,[2],[3]]", 2),
        ] {
            assert_eq!(check(text.as_bytes(), depth), Ok(()), "{text}");
            if depth > 0 {
                assert_eq!(
                    check(text.as_bytes(), depth - 1),
                    Err(Fault::Depth),
                    "{text}"
                );
            }
        }
        let mixed = "[{\"a\":".repeat(64) + "1" + &"}]".repeat(64);
        assert_eq!(check(mixed.as_bytes(), 1000), Ok(()));
        assert_eq!(
            check(format!("[{mixed}]").as_bytes(), 1000),
            Err(Fault::Depth)
        );
    }

    proptest! {
        /// The same texts are JSON here and for serde_json.
        #[test]
        fn it_agrees_with_serde_json(input in r#"[\[\]{}:,"\\a1-9.eE+\-tfnulrs0 ]{0,14}"#) {
            let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&input).is_ok();
            prop_assert_eq!(check(input.as_bytes(), MAX_DEPTH).is_ok(), theirs, "{}", input);
        }

        /// The same for texts that are JSON but for one byte.
        #[test]
        fn it_agrees_on_damaged_json(value in json(), at: prop::sample::Index, byte: u8) {
            let mut text = value.into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            prop_assume!(std::str::from_utf8(&text).is_ok());
            let theirs = serde_json::from_slice::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(check(&text, MAX_DEPTH).is_ok(), theirs, "{:?}", text);
        }

        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = check(&input, 4);
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("-1.5e+3".to_owned()),
            Just("0".to_owned()),
            Just(r#""a\u00e9\n""#.to_owned()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|items| format!("[ {} ]", items.join(" , "))),
                prop::collection::vec(inner, 0..4).prop_map(|items| {
                    let members: Vec<String> =
                        items.iter().map(|item| format!("\"k\" : {item}")).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }
}
