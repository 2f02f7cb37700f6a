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
    let garbage = |error: serde_json::Error| UpstreamError::Garbage {
        endpoint: "the node".to_owned(),
        reason: error.to_string(),
    };
    let envelope: Envelope<'a> = serde_json::from_slice(body).map_err(garbage)?;
    match envelope {
        Envelope {
            error: Some(Failure { message, data }),
            ..
        } => Err(UpstreamError::Refused {
            reason: if data.is_empty() { message } else { data },
        }),
        Envelope {
            result: Some(result),
            ..
        } => serde_json::from_str(result.get()).map_err(garbage),
        Envelope { .. } => Err(UpstreamError::Garbage {
            endpoint: "the node".to_owned(),
            reason: "neither result nor error".to_owned(),
        }),
    }
}

/// Whether a body is an error answer to a question of ours.
pub(super) fn is_error(body: &[u8]) -> bool {
    body.starts_with(br#"{"jsonrpc":"2.0","id":1,"error":"#)
}

/// Bytes that stay charged until the last part of them is dropped.
pub(super) fn charged(bytes: impl AsRef<[u8]> + Send + 'static, charge: Reservation) -> Bytes {
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
        Err(error) => Err(UpstreamError::Garbage {
            endpoint: "the node".to_owned(),
            reason: format!("decoding was broken off: {error}"),
        }),
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
        assert_eq!(
            refused,
            Err(UpstreamError::Refused {
                reason: "no".to_owned()
            })
        );
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
