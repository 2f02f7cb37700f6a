//! The events of an executed transaction: what subscriptions and searches select it by.

use std::borrow::Cow;

use wire::json::write as json;

/// An event: its attributes by their names in queries, `type.key`, with their values.
pub(crate) type Event<'a> = Vec<(&'static str, Cow<'a, str>)>;

/// Appends them as JSON.
pub(crate) fn write(out: &mut Vec<u8>, events: &[Event<'_>]) {
    json::array(out, events, |out, event| {
        let part = |name: &'static str| name.split_once('.').unwrap_or((name, ""));
        let kind = event.first().map_or("", |(name, _)| part(name).0);
        let attributes = |out: &mut Vec<u8>| {
            json::array(out, event, |out, (name, value)| {
                let index = json::Raw(if is_indexed(name) { "true" } else { "false" });
                json::fill(
                    out,
                    r#"{"key":?,"value":?,"index":?}"#,
                    &[&json::Text(part(name).1), &json::Text(value), &index],
                );
            });
        };
        json::fill(
            out,
            r#"{"type":?,"attributes":?}"#,
            &[&json::Text(kind), &attributes],
        );
    });
}

/// The values of each attribute.
pub(crate) fn tags<'a>(events: &'a [Event<'_>], wanted: fn(&str) -> bool) -> Vec<Tag<'a>> {
    let mut tags: Vec<Tag<'a>> = Vec::new();
    for (name, value) in events.iter().flatten().filter(|(name, _)| wanted(name)) {
        match tags.iter_mut().find(|(tag, _)| tag == name) {
            Some((_, values)) => values.push(value),
            None => tags.push((name, vec![value])),
        }
    }
    tags
}

/// Whether searches find a transaction by it; subscriptions do by all.
pub(crate) fn is_indexed(name: &str) -> bool {
    name != NOT_INDEXED
}

/// An attribute with all of its values.
pub(crate) type Tag<'a> = (&'a str, Vec<&'a str>);

/// The attribute of the key-value store that searches do not know.
pub(crate) const NOT_INDEXED: &str = "app.noindex_key";
