//! A node's refusals, and messages that are no answers, counted by text.

use std::collections::BTreeMap;

/// Counts of refusals by code and text, and of unusable answers by what they are, bounded. Numbers that change from
/// answer to answer would make every text another one, so they are written `#`; a limit, which stands behind `max:`,
/// and a status of HTTP stay.
#[derive(Debug, Clone, Default)]
pub struct RefusalTexts {
    by_text: BTreeMap<String, u64>,
    unusable: BTreeMap<String, u64>,
}

impl RefusalTexts {
    /// Counts one refusal; its code may stand behind its name space, as `sdk/32`.
    pub fn count(&mut self, code: &str, text: &str) {
        let text = match without_numbers(text) {
            empty if empty.is_empty() => format!("code {code}"),
            text => format!("{code}: {text}"),
        };
        count(&mut self.by_text, text);
    }

    /// Counts one message that is no answer to a request; `came` is how it came, as `HTTP 200`.
    pub fn count_unusable(&mut self, came: &str, body: &[u8]) {
        let beginning = body.trim_ascii_start();
        let beginning = &beginning[..beginning.len().min(LONGEST_BEGINNING)];
        // Cut where the numbers are gone: their lengths would make the same message another text.
        let text = without_numbers(&String::from_utf8_lossy(beginning));
        let text: String = text.chars().take(SHOWN_CHARS).collect();
        let what = kind(beginning);
        count(
            &mut self.unusable,
            match beginning {
                [] => format!("{came}: {what}"),
                _ => format!("{came}: {what}: {text}"),
            },
        );
    }

    /// Counts one connection that ended because what came on it was no message of its protocol.
    pub fn count_broken(&mut self, problem: &str) {
        count(&mut self.unusable, without_numbers(problem));
    }

    /// The counts: code, colon, text; `code N` where there is no text.
    pub const fn counts(&self) -> &BTreeMap<String, u64> {
        &self.by_text
    }

    /// The counts of unusable answers: how they came, what they are, and how they begin.
    pub const fn unusable(&self) -> &BTreeMap<String, u64> {
        &self.unusable
    }
}

fn count(counts: &mut BTreeMap<String, u64>, text: String) {
    let known = counts.len() < MAX_TEXTS || counts.contains_key(&text);
    let text = if known { text } else { OTHER.to_owned() };
    *counts.entry(text).or_default() += 1;
}

/// What a message seems to be, by its first bytes.
fn kind(beginning: &[u8]) -> &'static str {
    let begins = |with: &str| {
        let head = beginning.get(..with.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()))
    };
    // The last character may have been cut in two.
    let is_text = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    match beginning.first() {
        None => "no content",
        Some(b'<') if begins("<!doctype html") || begins("<html") => "a web page",
        Some(b'<') => "markup",
        Some(b'{' | b'[') => "JSON, but no answer to the request",
        Some(_) if is_text => "text",
        Some(_) => "binary data",
    }
}

/// A text of at most [`MAX_CHARS`] with `#` in place of every number but limits, and of every hash.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    // A node's text is shown on terminals.
    let text = text.replace(|character: char| character.is_control(), " ");
    let is_part = |character: char| character.is_ascii_alphanumeric();
    let text = text.trim();
    let end = text
        .char_indices()
        .nth(MAX_CHARS)
        .map_or(text.len(), |(end, _)| end);
    let mut rest = &text[..end];
    while let Some(first) = rest.chars().next() {
        let length = if is_part(first) {
            rest.find(|character| !is_part(character))
                .unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        let is_hash = word.len() >= HASH_CHARS && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_kept = out.ends_with("max: ") || out.ends_with("HTTP ");
        let changes = (is_number && !is_kept) || is_hash;
        out.push_str(if changes { "#" } else { word });
        rest = after;
    }
    out
}

/// Texts counted apart; they come from the node, so their number must be bounded here.
const MAX_TEXTS: usize = 32;
const MAX_CHARS: usize = 160;
/// Bytes by which messages are distinguished, and characters that are shown of them.
const LONGEST_BEGINNING: usize = 256;
const SHOWN_CHARS: usize = 96;
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
    fn what_is_no_answer_is_told_by_what_it_is_and_how_it_begins() {
        let mut texts = RefusalTexts::default();
        for (came, body) in [
            (
                "HTTP 200",
                &b"\n<!DOCTYPE html>\n<html>\n<title>Welcome to nginx 1.25</title>"[..],
            ),
            ("HTTP 200", b""),
            ("HTTP 502", b"<?xml version=\"1.0\"?>"),
            ("HTTP 200", b"{\"status\":\"ok\"}"),
            ("WebSocket", b"\xff\xfe\x00\x1b[2J"),
            ("HTTP 404", b"404 page not found\n"),
        ] {
            texts.count_unusable(came, body);
        }
        texts.count_unusable("HTTP 200", &b"x".repeat(10_000_000));
        texts.count_broken("not HTTP: SSH-2.0-OpenSSH_9.2p1");
        texts.count_broken("the node answered HTTP 200 OK");
        let said: Vec<&str> = texts.unusable().keys().map(String::as_str).collect();
        let long = format!("HTTP 200: text: {}", "x".repeat(SHOWN_CHARS));
        assert_eq!(
            said,
            [
                "HTTP 200: JSON, but no answer to the request: {\"status\":\"ok\"}",
                "HTTP 200: a web page: <!DOCTYPE html> <html> <title>Welcome to nginx #.#</title>",
                "HTTP 200: no content",
                &long,
                "HTTP 404: text: # page not found",
                "HTTP 502: markup: <?xml version=\"#.#\"?>",
                "WebSocket: binary data: \u{fffd}\u{fffd}  [2J",
                "not HTTP: SSH-#.#-OpenSSH_#.2p1",
                "the node answered HTTP 200 OK",
            ]
        );
        let before = texts.unusable().len();
        for id in [5, 55_555, u64::MAX] {
            let body = format!("{{\"id\":{id},\"error\":\"{}\"}}", "no ".repeat(99));
            texts.count_unusable("HTTP 200", body.as_bytes());
        }
        assert_eq!(texts.unusable().len(), before + 1, "one cause, one text");
        for number in 0..1_000_u32 {
            texts.count_unusable("HTTP 200", &vec![b'a'; number as usize % 90]);
        }
        assert!(texts.unusable().len() <= MAX_TEXTS + 1);
    }

    /// A refusal could set the title of the terminal, or write a line of its own into the table.
    #[test]
    fn what_a_node_says_has_no_control_characters() {
        let mut texts = RefusalTexts::default();
        texts.count("5", "no\u{1b}]0;title\u{7}\nverdict      valid");
        let text = texts.counts().keys().next().unwrap();
        assert!(!text.contains(char::is_control), "{text:?}");
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
