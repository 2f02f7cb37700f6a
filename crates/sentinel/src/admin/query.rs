//! The query of a target: a few known names, each at most once.

use std::borrow::Cow;

/// The value of the only query parameter that is understood, if it is given.
///
/// # Errors
/// A sentence for the operator when there is another one, or the same one twice.
pub(super) fn only<'a>(query: Option<&'a str>, name: &str) -> Result<Option<Cow<'a, str>>, String> {
    let mut found = None;
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != name {
            return Err(format!(
                "unknown parameter {key:?}; only {name} is understood"
            ));
        }
        if found.replace(decode(value)?).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    Ok(found)
}

/// Percent decoding; people paste IPv6 addresses encoded.
fn decode(text: &str) -> Result<Cow<'_, str>, String> {
    if !text.contains('%') {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(format!("{text:?} is not percent-encoded properly"));
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| format!("{text:?} is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_parameter_decoded() {
        assert_eq!(only(None, "ip"), Ok(None));
        assert_eq!(only(Some(""), "ip"), Ok(None));
        assert_eq!(only(Some("ip=10.0.0.1"), "ip"), Ok(Some("10.0.0.1".into())));
        assert_eq!(only(Some("ip=%3A%3a1"), "ip"), Ok(Some("::1".into())));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let refused = |query| only(Some(query), "ip").unwrap_err();
        assert!(refused("pi=1").contains("\"pi\""));
        assert!(refused("ip=1&ip=2").contains("twice"));
        assert!(refused("ip=%3").contains("percent"));
        assert!(refused("ip=%zz").contains("percent"));
        assert!(refused("ip=%ff").contains("UTF-8"));
    }
}
