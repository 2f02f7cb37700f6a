//! The height that a read asks for.

use wire::json;

use super::ReadRequest;

/// The height that a read names, in its target or its parameters.
pub(super) fn named(request: &ReadRequest) -> Option<u64> {
    if request.body.is_empty() {
        return in_target(&request.target);
    }
    let text = json::check(&request.body).ok()?;
    let (_, params) = json::members(text).find(|(key, _)| json::folds_to(key, "params"))?;
    let value = match json::Kind::of(params) {
        json::Kind::Object => json::members(params).find(|(key, _)| key == "height")?.1,
        // Of these it is the first one (`rpc/core/routes.go`).
        json::Kind::Array if is_first(request.method.as_deref()?) => {
            json::elements(params).next()?
        }
        _ => return None,
    };
    number(value)
}

fn is_first(method: &str) -> bool {
    matches!(
        method,
        "block" | "block_results" | "commit" | "consensus_params" | "header" | "validators"
    )
}

fn in_target(target: &[u8]) -> Option<u64> {
    let (_, query) = std::str::from_utf8(target).ok()?.split_once('?')?;
    let mut values = query
        .split('&')
        .filter_map(|part| part.strip_prefix("height="));
    let value = values.next()?.replace("%22", "\"");
    number(value.as_bytes())
}

/// A number, in quotes or not; 0 is none.
fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches('"');
    text.parse().ok().filter(|height| *height > 0)
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::*;

    #[test]
    fn a_height_is_read_wherever_the_node_reads_it() {
        for (method, target, body, height) in [
            ("block", "/block?height=7", "", Some(7)),
            ("block", "/block?x=1&height=\"7\"", "", Some(7)),
            ("block", "/v1/block?height=%227%22&y", "", Some(7)),
            ("block", "/block", "", None),
            ("block", "/block?height=", "", None),
            ("block", "/block?height=0", "", None),
            ("block", "/block?height=-1", "", None),
            ("tx", "/tx?hash=height=7", "", None),
            ("abci_query", "/", r#"{"params":{"height":"7"}}"#, Some(7)),
            ("block", "/", r#"{"params":{"height":7}}"#, Some(7)),
            ("block", "/", r#"{"params":{"Height":7}}"#, None),
            ("block", "/", r#"{"params":["7"]}"#, Some(7)),
            ("genesis_chunked", "/", r#"{"params":["7"]}"#, None),
            ("block", "/", r#"{"height":"7"}"#, None),
            ("block", "/", r#"{"params":[]}"#, None),
        ] {
            let found = named(&request(method, target, body));
            assert_eq!(found, height, "{target} {body}");
        }
    }
}
