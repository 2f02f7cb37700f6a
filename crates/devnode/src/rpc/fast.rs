//! The straight way for the one request that matters: a broadcast as clients commonly write it.
//!
//! It recognises `{"jsonrpc":…,"id":…,"method":"broadcast_tx_…","params":{"tx":"…"}}` in any order
//! of members, with one pass and without a value tree. Whatever it does not recognise for sure, it
//! leaves to the general decoder, so that it needs no error texts.

use super::answer::Id;
use super::table::Name;

/// A recognised broadcast.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broadcast {
    pub(crate) id: Id,
    pub(crate) method: Name,
    pub(crate) tx: Vec<u8>,
}

/// Largest number of digits of an id that every reader takes for the same number.
const EXACT_DIGITS: usize = 15;

/// Recognises a broadcast; none if it is something else or unusual.
pub(crate) fn broadcast(body: &[u8]) -> Option<Broadcast> {
    let mut at = Cursor { input: body, at: 0 };
    let (mut version, mut id, mut method, mut tx) = (None, None, None, None);
    at.token(b'{')?;
    loop {
        let key = at.plain_string()?;
        at.token(b':')?;
        match key {
            b"jsonrpc" => version
                .replace(at.plain_string()?)
                .map_or(Some(()), |_| None)?,
            b"id" => id.replace(at.id()?).map_or(Some(()), |_| None)?,
            b"method" => method
                .replace(broadcast_method(at.plain_string()?)?)
                .map_or(Some(()), |_| None)?,
            b"params" => tx.replace(at.params()?).map_or(Some(()), |_| None)?,
            _ => return None,
        }
        if !at.comma_or(b'}')? {
            break;
        }
    }
    at.end()?;
    Some(Broadcast {
        id: id?,
        method: method?,
        tx: tx?,
    })
}

fn broadcast_method(name: &[u8]) -> Option<Name> {
    match name {
        b"broadcast_tx_sync" => Some(Name::BroadcastTxSync),
        b"broadcast_tx_async" => Some(Name::BroadcastTxAsync),
        b"broadcast_tx_commit" => Some(Name::BroadcastTxCommit),
        _ => None,
    }
}

#[derive(Debug)]
struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn space(&mut self) {
        while matches!(self.input.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

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

    fn end(&mut self) -> Option<()> {
        self.space();
        (self.at == self.input.len()).then_some(())
    }

    /// A string of printable ASCII without escapes.
    fn plain_string(&mut self) -> Option<&'a [u8]> {
        self.token(b'"')?;
        let rest = &self.input[self.at..];
        let length = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x7f..))?;
        self.at += length + 1;
        (rest[length] == b'"').then(|| &rest[..length])
    }

    fn id(&mut self) -> Option<Id> {
        self.space();
        if self.input.get(self.at) == Some(&b'"') {
            let text = std::str::from_utf8(self.plain_string()?).ok()?;
            return Some(Id::Text(text.to_owned()));
        }
        let rest = &self.input[self.at..];
        let length = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let digits = std::str::from_utf8(&rest[..length]).ok()?;
        let plain = (1..=EXACT_DIGITS).contains(&length)
            && (length == 1 || !digits.starts_with('0'))
            && !matches!(rest[length], b'.' | b'e' | b'E');
        self.at += length;
        if plain {
            digits.parse().ok().map(Id::Number)
        } else {
            None
        }
    }

    /// `{"tx":"…"}` or `["…"]`.
    fn params(&mut self) -> Option<Vec<u8>> {
        self.space();
        let close = match self.input.get(self.at)? {
            b'{' => {
                self.at += 1;
                (self.plain_string()? == b"tx").then_some(())?;
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
        let rest = &self.input[self.at..];
        let length = rest.iter().position(|byte| *byte == b'"')?;
        let tx = base64_simd::STANDARD.decode_to_vec(&rest[..length]).ok()?;
        self.at += length + 1;
        self.token(close)?;
        Some(tx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rpc::{envelope, params, table};
    use crate::wire::gojson;

    /// The general way.
    fn general(body: &[u8]) -> Option<Broadcast> {
        let request = envelope::decode(gojson::check(body).ok()?).ok()?;
        let method = table::find(&request.method)?;
        let mut args = params::decode(method, request.params?).ok()?;
        Some(Broadcast {
            id: request.id?,
            method: method.name,
            tx: args.take_bytes(0),
        })
    }

    #[test]
    fn the_common_forms_are_recognised() {
        for body in [
            r#"{"jsonrpc":"2.0","id":7,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#" { "method" : "broadcast_tx_sync" , "params" : [ "YT0x" ] , "id" : 7 } "#,
        ] {
            let found = broadcast(body.as_bytes()).unwrap();
            assert_eq!(
                found,
                Broadcast {
                    id: Id::Number(7),
                    method: Name::BroadcastTxSync,
                    tx: b"a=1".to_vec()
                }
            );
        }
    }

    #[test]
    fn the_unusual_is_left_to_others() {
        for body in [
            "",
            "{}",
            r#"{"id":1.5,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":01,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"id":2,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0\u0078"}}"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}} x"#,
            r#"{"id":1,"method":"broadcast_tx_sync","params":{"tx":"YT0x"},}"#,
            r#"{"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#,
            r#"{"id":1,"method":"health","params":{"tx":"YT0x"}}"#,
        ] {
            assert_eq!(broadcast(body.as_bytes()), None, "{body}");
        }
    }

    proptest! {
        /// Whatever is recognised is what the general decoder makes of it.
        #[test]
        fn it_never_disagrees_with_the_general_decoder(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "[", "]", ":", ",", " ", "\"id\"", "\"method\"", "\"params\"", "\"jsonrpc\"", "\"tx\"", "\"2.0\"",
                "\"broadcast_tx_sync\"", "\"YT0x\"", "\"YT1=\"", "1", "-1", "0", "12", "null", "\"ID\"", "\"a\\n\"",
                "{\"id\":1,\"method\":\"broadcast_tx_sync\",\"params\":{\"tx\":\"YT0x\"}", "\"params\":[\"YT0x\"]",
            ]), 0..24),
        ) {
            let body = parts.concat();
            if let Some(found) = broadcast(body.as_bytes()) {
                prop_assert_eq!(Some(found), general(body.as_bytes()));
            }
        }

        #[test]
        fn every_plain_broadcast_is_recognised(id in 0_u64..1_000_000_000_000_000, tx in prop::collection::vec(any::<u8>(), 0..300)) {
            let text = base64_simd::STANDARD.encode_to_string(&tx);
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"broadcast_tx_async","params":{{"tx":"{text}"}}}}"#);
            let found = broadcast(body.as_bytes());
            prop_assert_eq!(found, Some(Broadcast { id: Id::Number(id.cast_signed()), method: Name::BroadcastTxAsync, tx }));
        }
    }
}
