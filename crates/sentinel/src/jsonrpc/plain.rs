//! The straight way for the request that matters: a broadcast as clients commonly write it.
//!
//! Recognised are `{"jsonrpc":…,"id":…,"method":"broadcast_tx_…","params":{"tx":"…"}}` with members
//! in any order, each at most once, spelled exactly, without escapes and with an id that the node
//! echoes letter by letter. Everything else is left to the thorough reader.

use bytes::Bytes;
use rpc::BroadcastMethod;

use super::{Call, RawId, broadcast_method};

/// The broadcast, or none if it is something else or unusual.
pub(super) fn broadcast(body: &[u8]) -> Option<Call<'_>> {
    let (call, len) = first(body)?;
    let is_all = body[len..]
        .iter()
        .all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    is_all.then_some(call)
}

/// The broadcast at the start of `text`, and the bytes that it takes.
pub(super) fn first(text: &[u8]) -> Option<(Call<'_>, usize)> {
    let mut cursor = Cursor { input: text, at: 0 };
    let call = cursor.call()?;
    Some((call, cursor.at))
}

/// The id, if the node echoes it letter by letter.
pub(super) fn id(text: &[u8]) -> Option<RawId<'_>> {
    let mut cursor = Cursor { input: text, at: 0 };
    let id = cursor.id()?;
    (cursor.at == text.len()).then_some(id)
}

/// The members, the transaction still as base64.
struct Found<'a> {
    id: RawId<'a>,
    method: BroadcastMethod,
    tx: &'a [u8],
}

/// Largest number of digits that every reader takes for the same number: a double has 53 bits.
const EXACT_DIGITS: usize = 15;

struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn call(&mut self) -> Option<Call<'a>> {
        let Found { id, method, tx } = self.members()?;
        // The most expensive part comes last, when nothing else can fail.
        let tx = base64_simd::STANDARD.decode_to_vec(tx).ok()?;
        Some(Call::Write {
            id,
            method,
            tx: Bytes::from(tx),
        })
    }

    fn members(&mut self) -> Option<Found<'a>> {
        let (mut version, mut id, mut method, mut tx) = (None, None, None, None);
        self.token(b'{')?;
        loop {
            let key = self.string()?;
            self.token(b':')?;
            match key {
                b"jsonrpc" => once(&mut version, self.string()?)?,
                b"id" => once(&mut id, self.id()?)?,
                b"method" => once(&mut method, broadcast_method(self.string()?)?)?,
                b"params" => once(&mut tx, self.params()?)?,
                _ => return None,
            }
            if !self.comma_or(b'}')? {
                break;
            }
        }
        Some(Found {
            id: id?,
            method: method?,
            tx: tx?,
        })
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.input.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    #[inline]
    fn token(&mut self, wanted: u8) -> Option<()> {
        self.space();
        (self.input.get(self.at) == Some(&wanted)).then(|| self.at += 1)
    }

    /// True after a comma, false after `close`.
    fn comma_or(&mut self, close: u8) -> Option<bool> {
        self.space();
        let byte = *self.input.get(self.at)?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            byte if byte == close => Some(false),
            _ => None,
        }
    }

    /// The inside of a string that every reader and writer leaves as it is.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        self.token(b'"')?;
        let rest = self.input.get(self.at..)?;
        let len = rest.iter().position(|byte| !VERBATIM[usize::from(*byte)])?;
        self.at += len + 1;
        (rest[len] == b'"').then(|| &rest[..len])
    }

    /// The text of an id.
    fn id(&mut self) -> Option<RawId<'a>> {
        self.space();
        let start = self.at;
        if self.input.get(start) == Some(&b'"') {
            self.string()?;
        } else {
            self.whole_number()?;
        }
        let text = std::str::from_utf8(self.input.get(start..self.at)?).ok()?;
        Some(RawId::verbatim(text))
    }

    fn whole_number(&mut self) -> Option<()> {
        let negative = self.input.get(self.at) == Some(&b'-');
        self.at += usize::from(negative);
        let rest = self.input.get(self.at..)?;
        let len = rest
            .iter()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(rest.len());
        // Not "-0", not "01", no fraction, no exponent: these are echoed differently or not at all.
        let plain = match rest.first()? {
            b'0' => len == 1 && !negative,
            _ => (1..=EXACT_DIGITS).contains(&len),
        };
        self.at += len;
        (plain && !matches!(rest.get(len), Some(b'.' | b'e' | b'E'))).then_some(())
    }

    /// The base64 in `{"tx":"…"}` or `["…"]`.
    fn params(&mut self) -> Option<&'a [u8]> {
        self.space();
        let close = match self.input.get(self.at)? {
            b'{' => {
                self.at += 1;
                (self.string()? == b"tx").then_some(())?;
                self.token(b':')?;
                b'}'
            }
            b'[' => {
                self.at += 1;
                b']'
            }
            _ => return None,
        };
        self.token(b'"')?;
        let rest = self.input.get(self.at..)?;
        let len = memchr::memchr(b'"', rest)?;
        self.at += len + 1;
        self.token(close)?;
        // What is no base64 will be found when it is decoded.
        Some(&rest[..len])
    }
}

/// Fills a slot once: what a repeated member means is for the thorough reader.
#[inline]
fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// Bytes of a string that stand for themselves when read and when written again: printable ASCII
/// without quote and backslash, and without the three that Go escapes for the sake of HTML.
const VERBATIM: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        table[byte] = !matches!(byte as u8, b'"' | b'\\' | b'<' | b'>' | b'&');
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Option<(String, BroadcastMethod, Vec<u8>)> {
        match broadcast(body.as_bytes())? {
            Call::Write { id, method, tx } => Some((id.as_str().to_owned(), method, tx.to_vec())),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_common_forms_are_recognised() {
        for (body, id) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
                "7",
            ),
            (
                " {\t\"method\" : \"broadcast_tx_sync\" , \"params\" : [ \"YT0x\" ] ,\r\n \"id\" : \"7\" } ",
                "\"7\"",
            ),
            (
                r#"{"id":-5,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
                "-5",
            ),
            (
                r#"{"id":"","method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
                "\"\"",
            ),
        ] {
            let (found_id, method, tx) = found(body).unwrap();
            assert_eq!((found_id.as_str(), method), (id, BroadcastMethod::Sync));
            assert_eq!(tx, b"a=1");
        }
    }

    #[test]
    fn the_unusual_is_left_to_others() {
        let with = |id: &str, params: &str| {
            format!(r#"{{"id":{id},"method":"broadcast_tx_sync","params":{params}}}"#)
        };
        for id in [
            "1.0",
            "1e3",
            "01",
            "-0",
            "-",
            "null",
            "1234567890123456",
            "\"a<b\"",
            "\"\\u0061\"",
            "\"é\"",
            "true",
            "{}",
        ] {
            assert_eq!(found(&with(id, r#"{"tx":"YT0x"}"#)), None, "id {id}");
        }
        for params in [
            "{}",
            "[]",
            "null",
            r#"{"tx":"YQ"}"#,
            r#"{"tx":"YT0x","tx":"YT0x"}"#,
            r#"{"TX":"YT0x"}"#,
            r#"["YT0x","YT0x"]"#,
            "[[97]]",
            r#"{"tx":"YT0\u0078"}"#,
            r#"{"tx":"YT 0x"}"#,
        ] {
            assert_eq!(found(&with("1", params)), None, "params {params}");
        }
        for body in [
            r#"{"id":1,"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"},"x":1}"#,
            r#"{"id":1,"method":"Broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}} x"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"},}"#,
            r#"{"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            "",
            "{",
            "{}",
            "[]",
        ] {
            assert_eq!(found(body), None, "{body}");
        }
    }
}
