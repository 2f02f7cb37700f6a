//! A node's reply to a question of ours, complete in memory.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::UpstreamError;
use crate::ledger::Reservation;

/// The result in an answer's body.
///
/// # Errors
/// [`UpstreamError::Refused`] with the node's words, [`UpstreamError::Garbage`] for anything else.
pub(super) fn result<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, UpstreamError> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        result: Option<&'a RawValue>,
        error: Option<Failure>,
    }
    #[derive(Deserialize)]
    struct Failure {
        #[serde(default)]
        message: String,
        #[serde(default)]
        data: String,
    }
    let Envelope { result, error } =
        serde_json::from_slice(body).map_err(|error| garbage(&error))?;
    match (error, result) {
        (Some(Failure { message, data }), _) => {
            Err(UpstreamError::Refused(match data.is_empty() {
                true => message,
                false => data,
            }))
        }
        (None, Some(result)) => part(result),
        (None, None) => Err(garbage(&"neither result nor error")),
    }
}

/// A part of an answer.
///
/// # Errors
/// [`UpstreamError::Garbage`].
pub(super) fn part<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, UpstreamError> {
    serde_json::from_str(raw.get()).map_err(|error| garbage(&error))
}

fn garbage(reason: &impl ToString) -> UpstreamError {
    UpstreamError::Garbage("the node".to_owned(), reason.to_string())
}

/// Whether a body is an error answer to a question of ours.
pub(super) fn is_error(body: &[u8]) -> bool {
    // Some nodes indent their JSON; the error stands where a result would, at the start.
    let mut start = body.iter().filter(|byte| !byte.is_ascii_whitespace());
    (br#"{"jsonrpc":"2.0","id":1,"error":"#.iter()).all(|byte| start.next() == Some(byte))
}

/// Bytes that stay charged until the last part of them is dropped.
pub(crate) fn charged(bytes: impl AsRef<[u8]> + Send + 'static, charge: Reservation) -> Bytes {
    struct Charged<B> {
        bytes: B,
        _charge: Reservation,
    }
    impl<B: AsRef<[u8]>> AsRef<[u8]> for Charged<B> {
        fn as_ref(&self) -> &[u8] {
            self.bytes.as_ref()
        }
    }
    Bytes::from_owner(Charged {
        bytes,
        _charge: charge,
    })
}

/// Runs a decoding of many bytes where it holds up nobody.
pub(super) async fn decode<T, F>(body: Bytes, decode: F) -> Result<T, UpstreamError>
where
    T: Send + 'static,
    F: FnOnce(Bytes) -> Result<T, UpstreamError> + Send + 'static,
{
    if body.len() < BLOCKING_BYTES {
        return decode(body);
    }
    match tokio::task::spawn_blocking(move || decode(body)).await {
        Ok(result) => result,
        // It fails only by a panic, or when the runtime ends before it began.
        Err(error) => Err(garbage(&format!("decoding was broken off: {error}"))),
    }
}

/// Below this size decoding takes less than switching threads is worth (about 0.2 ms).
const BLOCKING_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    #[test]
    fn results_and_errors_are_told_apart() {
        let number = result::<u64>(br#"{"jsonrpc":"2.0","id":1,"result":7}"#);
        assert_eq!(number, Ok(7));
        let refused = result::<u64>(
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"no"}}"#,
        );
        assert_eq!(refused, Err(UpstreamError::Refused("no".to_owned())));
        for garbage in ["", "[]", "{}", "<html>", r#"{"result":"x"}"#] {
            let read = result::<u64>(garbage.as_bytes());
            assert!(
                matches!(read, Err(UpstreamError::Garbage { .. })),
                "{garbage}"
            );
        }
    }

    #[test]
    fn bytes_stay_charged_until_the_last_part_is_gone() {
        let ledger = Ledger::new(100);
        let bytes = charged(b"hello".to_vec(), ledger.reserve(5).unwrap());
        let part = bytes.slice(1..3);
        drop(bytes);
        assert_eq!(ledger.used(), 5);
        drop(part);
        assert_eq!(ledger.used(), 0);
    }
}
