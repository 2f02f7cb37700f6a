//! Request targets as clients write them, for a library that is stricter than the node.

use bytes::Bytes;
use hyper::Uri;

use super::UpstreamError;

/// The target under `base` (empty, or a gateway's prefix) as a URI.
///
/// People write `/tx?hash="…"` with raw quotes, which the node takes and the library refuses: such
/// bytes are percent-encoded, which the node decodes to the same.
///
/// # Errors
/// [`UpstreamError::Request`] when it is no path.
pub(super) fn uri(base: &str, target: &Bytes) -> Result<Uri, UpstreamError> {
    let no_path = || UpstreamError::Request("the target is not a path".to_owned());
    if !target.starts_with(b"/") {
        return Err(no_path());
    }
    let parsed = if base.is_empty() && target.iter().all(|byte| is_plain(*byte)) {
        Uri::from_maybe_shared(target.clone())
    } else {
        let mut text = String::with_capacity(base.len() + target.len() + 16);
        text.push_str(base);
        for byte in target {
            if is_plain(*byte) {
                text.push(char::from(*byte));
            } else {
                text.push('%');
                text.push(char::from(HEX[usize::from(byte >> 4)]));
                text.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
        Uri::try_from(text)
    };
    let uri = parsed.map_err(|error| UpstreamError::Request(error.to_string()))?;
    // `//host/path` would be read as a host.
    if uri.authority().is_some() {
        return Err(no_path());
    }
    Ok(uri)
}

/// Bytes that stand for themselves in a path and in a query alike.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte)
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(base: &str, target: &'static str) -> String {
        uri(base, &Bytes::from_static(target.as_bytes()))
            .unwrap()
            .to_string()
    }

    #[test]
    fn quotes_are_encoded_and_the_rest_stays() {
        assert_eq!(text("", "/status"), "/status");
        assert_eq!(
            text("", r#"/broadcast_tx_sync?tx="a=b""#),
            "/broadcast_tx_sync?tx=%22a=b%22"
        );
        assert_eq!(text("", "/a%2Fb?x=%22"), "/a%2Fb?x=%22");
        assert_eq!(text("", "/a?b={}#<"), "/a?b=%7B%7D%23%3C");
        assert_eq!(text("/rpc", "/status?"), "/rpc/status?");
        assert_eq!(text("", "//status"), "//status");
    }

    #[test]
    fn only_paths_are_forwarded() {
        for wrong in ["", "*", "http://other/", "status"] {
            assert!(uri("", &Bytes::from_static(wrong.as_bytes())).is_err());
        }
    }

    proptest! {
        #[test]
        fn every_path_decodes_to_what_it_was(rest in proptest::collection::vec(any::<u8>(), 0..60)) {
            let target = [b"/".as_slice(), &rest].concat();
            let encoded = uri("", &Bytes::from(target.clone())).unwrap().to_string();
            prop_assert_eq!(decoded(encoded.as_bytes()), decoded(&target));
        }
    }

    fn decoded(text: &[u8]) -> Vec<u8> {
        let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
                (b'%', Some(high), Some(low)) => {
                    out.push((high * 16 + low) as u8);
                    at += 3;
                }
                _ => {
                    out.push(*byte);
                    at += 1;
                }
            }
        }
        out
    }
}
