//! The query of a target: a few known names, each at most once.

use wire::query::{Plus, unescape};

/// The value of the only query parameter that is understood, if it is given.
///
/// # Errors
/// A sentence for the operator when there is another one, or the same one twice.
pub(super) fn only(query: Option<&str>, name: &str) -> Result<Option<String>, String> {
    let mut found = None;
    let pairs = query.unwrap_or_default().split('&');
    for pair in pairs.filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != name {
            return Err(format!(
                "unknown parameter {key:?}; only {name} is understood"
            ));
        }
        let decoded = unescape(value.as_bytes(), Plus::Literal)
            .ok_or_else(|| format!("{value:?} is not percent-encoded properly"))?;
        let text = String::from_utf8(decoded.into_owned())
            .map_err(|_| format!("{value:?} is not UTF-8"))?;
        if found.replace(text).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    Ok(found)
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
