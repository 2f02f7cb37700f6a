//! Which events a subscription wants.

/// A query: `tag = 'value'` once, or several times with `AND` between. All have to hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Query(Vec<(String, String)>);

/// An event's tags with their values.
pub(crate) type Tags<'a> = [(&'a str, Vec<&'a str>)];

impl Query {
    /// # Errors
    /// The wire's text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_QUERY_LEN {
            return Err("maximum query length exceeded".to_owned());
        }
        let conditions = text.split(" AND ").map(|condition| {
            let (tag, value) = condition.split_once('=')?;
            let value = value.trim();
            let quoted = value
                .strip_prefix('\'')
                .and_then(|value| value.strip_suffix('\''));
            let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let value = quoted.or(is_number.then_some(value))?;
            let is_whole = !tag.trim().is_empty() && !value.contains('\'');
            is_whole.then(|| (tag.trim().to_owned(), value.to_owned()))
        });
        let conditions: Option<Vec<_>> = conditions.collect();
        conditions.map(Self).ok_or_else(|| {
            "failed to parse query: the built-in node takes tag = 'value', and several with AND"
                .to_owned()
        })
    }

    /// Whether the tags hold every condition.
    pub(crate) fn matches(&self, tags: &Tags<'_>) -> bool {
        self.0.iter().all(|(tag, value)| {
            tags.iter()
                .any(|(known, values)| known == tag && values.contains(&value.as_str()))
        })
    }

    /// Whether an event of this kind can match.
    pub(crate) fn selects(&self, event: &str) -> bool {
        let mut kinds = self.0.iter().filter(|(tag, _)| tag == "tm.event");
        kinds.all(|(_, kind)| kind == event)
    }
}

/// Longest query (`maxQueryLength` in `rpc/core/events.go`).
const MAX_QUERY_LEN: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_selects_by_equality() {
        let tags: &Tags<'_> = &[("tm.event", vec!["Tx"]), ("app.key", vec!["a", "b"])];
        for (text, expected) in [
            ("tm.event='Tx'", Some(true)),
            (" tm.event =\t'Tx' AND app.key='b'", Some(true)),
            ("tm.event='Tx' AND app.key='c'", Some(false)),
            ("tm.event='NewBlock'", Some(false)),
            ("tx.height=7", Some(false)),
            ("tx.height>7", None),
            ("app.key EXISTS", None),
            ("", None),
            ("a='", None),
        ] {
            let found = Query::parse(text).ok().map(|query| query.matches(tags));
            assert_eq!(found, expected, "{text}");
        }
    }
}
