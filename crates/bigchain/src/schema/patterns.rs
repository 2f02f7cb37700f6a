//! The schema's patterns, matched by hand.

/// The matcher of a pattern of the rules.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        r"^2\.0$" => text == "2.0",
        "[0-9a-f]{64}" => is_digest(text),
        "[1-9a-zA-Z^OIl]{43,44}" => is_key(text),
        "^[0-9]{1,20}$" => is_amount(text),
        "^[a-zA-Z0-9_-]*$" => is_fulfillment(text),
        "^ed25519-sha-256$" => text == "ed25519-sha-256",
        "^threshold-sha-256$" => text == "threshold-sha-256",
        pattern => {
            debug_assert!(pattern.starts_with("^ni:"), "a pattern without matcher");
            is_condition_uri(text)
        }
    }
}

/// 64 hexadecimal digits somewhere: the pattern has no anchors.
pub(super) fn is_digest(text: &str) -> bool {
    has_run(text, 64, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// 43 characters of a key somewhere. By a slip of the original `O`, `I`, `l` and `^` are among
/// them.
pub(super) fn is_key(text: &str) -> bool {
    has_run(text, 43, |byte| {
        byte == b'^' || (byte != b'0' && byte.is_ascii_alphanumeric())
    })
}

pub(super) fn is_amount(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn is_fulfillment(text: &str) -> bool {
    text.bytes().all(is_base64url)
}

/// Two or three parameters in any order, each perhaps with `&` after it; a fingerprint of up to
/// 86 characters.
pub(super) fn is_condition_uri(text: &str) -> bool {
    let Some((fingerprint, mut query)) = text
        .strip_prefix("ni:///sha-256;")
        .and_then(|rest| rest.split_once('?'))
    else {
        return false;
    };
    if fingerprint.len() > 86 || !fingerprint.bytes().all(is_base64url) {
        return false;
    }
    let mut count = 0;
    while !query.is_empty() {
        let Some(rest) = after_parameter(query) else {
            return false;
        };
        query = rest.strip_prefix('&').unwrap_or(rest);
        count += 1;
    }
    (2..=3).contains(&count)
}

fn after_parameter(query: &str) -> Option<&str> {
    const WHOLE: [&str; 3] = [
        "fpt=ed25519-sha-256",
        "fpt=threshold-sha-256",
        "subtypes=ed25519-sha-256",
    ];
    if let Some(digits) = query.strip_prefix("cost=") {
        let rest = digits.trim_start_matches(|char: char| char.is_ascii_digit());
        return (rest.len() < digits.len()).then_some(rest);
    }
    WHOLE
        .into_iter()
        .find_map(|parameter| query.strip_prefix(parameter))
}

const fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn has_run(text: &str, wanted: usize, belongs: impl Fn(u8) -> bool) -> bool {
    let mut run = 0;
    for byte in text.bytes() {
        run = if belongs(byte) { run + 1 } else { 0 };
        if run == wanted {
            return true;
        }
    }
    false
}
