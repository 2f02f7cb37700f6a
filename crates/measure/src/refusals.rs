//! What a node says when it refuses, counted by text.

use std::collections::BTreeMap;

/// Counts of refusals by code and text, bounded. Numbers that change from answer to answer would make
/// every text another one, so they are written `#`; a limit, which stands behind `max:`, stays.
#[derive(Debug, Clone, Default)]
pub struct RefusalTexts {
    by_text: BTreeMap<String, u64>,
}

impl RefusalTexts {
    /// Counts one refusal; its code may stand behind its name space, as `sdk/32`.
    pub fn count(&mut self, code: &str, text: &str) {
        let text = match without_numbers(text) {
            empty if empty.is_empty() => format!("code {code}"),
            text => format!("{code}: {text}"),
        };
        let known = self.by_text.len() < MAX_TEXTS || self.by_text.contains_key(&text);
        let text = if known { text } else { OTHER.to_owned() };
        *self.by_text.entry(text).or_default() += 1;
    }

    /// The counts: code, colon, text; `code N` where there is no text.
    pub const fn counts(&self) -> &BTreeMap<String, u64> {
        &self.by_text
    }
}

/// A text of at most [`MAX_CHARS`] with `#` in place of every number but limits, and of every hash.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let is_part = |character: char| character.is_ascii_alphanumeric();
    let text = text.trim();
    let end = text
        .char_indices()
        .nth(MAX_CHARS)
        .map_or(text.len(), |(end, _)| end);
    let mut rest = &text[..end];
    while let Some(first) = rest.chars().next() {
        let length = match is_part(first) {
            true => rest
                .find(|character| !is_part(character))
                .unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, after) = rest.split_at(length);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let is_hash = word.len() >= HASH_CHARS && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let changes = (is_number && !out.ends_with("max: ")) || is_hash;
        out.push_str(if changes { "#" } else { word });
        rest = after;
    }
    out
}

/// Texts counted apart; they come from the node, so their number must be bounded here.
const MAX_TEXTS: usize = 32;
const MAX_CHARS: usize = 160;
/// Words of hexadecimal digits of at least this length are hashes.
const HASH_CHARS: usize = 16;
const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cause_is_one_text_whatever_its_numbers() {
        let mut texts = RefusalTexts::default();
        for bytes in [514_000, 514_250] {
            let full = "mempool is full: number of txs 2000 (max: 2000), total txs bytes";
            texts.count("-32603", &format!("{full} {bytes} (max: 1073741824)"));
        }
        texts.count("-32603", "tx already exists in cache");
        texts.count("4", "");
        let hash = "AB".repeat(32);
        texts.count(
            "sdk/32",
            &format!("account sequence mismatch, expected 12, got 9: {hash}"),
        );
        let counts: Vec<(&str, u64)> = texts
            .counts()
            .iter()
            .map(|(text, count)| (&**text, *count))
            .collect();
        assert_eq!(
            counts,
            [
                (
                    "-32603: mempool is full: number of txs # (max: 2000), total txs bytes # (max: 1073741824)",
                    2
                ),
                ("-32603: tx already exists in cache", 1),
                ("code 4", 1),
                ("sdk/32: account sequence mismatch, expected #, got #: #", 1),
            ]
        );
    }

    #[test]
    fn a_node_that_never_says_the_same_twice_takes_no_memory() {
        let mut texts = RefusalTexts::default();
        for number in 0..1_000_u32 {
            texts.count("1", &"é".repeat(number as usize));
        }
        assert!(texts.counts().len() <= MAX_TEXTS + 1);
        assert_eq!(texts.counts().values().sum::<u64>(), 1_000);
        assert!(texts.counts().keys().all(|text| text.chars().count() < 200));
    }
}
