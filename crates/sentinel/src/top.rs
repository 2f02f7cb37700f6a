//! `sentinel top`: the figures of a running sentinel in the terminal, as text.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::anyhow;
use hyper::Uri;
use ops::command::{CommandError, exit, failed};
use rpc::{Client, ClientError, ClientOptions, Endpoint, Trust};
use tokio::runtime::Builder;

use crate::operator::printable;

/// The host and port of an operator's listener from a URL, an address with a port, or a port of this machine.
///
/// # Errors
/// What may be written instead.
pub fn address(text: &str) -> Result<String, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(format!("127.0.0.1:{port}"));
    }
    let has_scheme = text.contains("://");
    let url = format!("{}{text}", if has_scheme { "" } else { "http://" });
    let url = url.parse::<Uri>().ok();
    let url = url.filter(|url| url.scheme_str() == Some("http"));
    let host = |url: Uri| {
        let port = url.port_u16().unwrap_or(26681);
        Some(format!("{}:{port}", url.host()?))
    };
    url.and_then(host).ok_or_else(|| {
        "no address of an operator's listener; write http://127.0.0.1:26681, 10.0.0.5:26681 or 26681"
            .to_owned()
    })
}

/// Prints the figures of the sentinel whose operator's listener this is, every second until it is ended. A terminal
/// is cleared before each.
///
/// # Errors
/// An answer is missing or is not that of this listener.
pub fn run(admin: &str, once: bool) -> Result<u8, CommandError> {
    let options = ClientOptions {
        max_answer_bytes: MOST_BYTES.into(),
        ..ClientOptions::new(PATIENCE, &Trust::native())
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let is_shown = !once && io::stdout().is_terminal();
    let clear = if is_shown { "\x1b[H\x1b[2J" } else { "" };
    loop {
        let room = is_shown.then(room).flatten();
        let text = runtime.block_on(figures(admin, options.clone()))?;
        let text = room.map_or_else(|| text.clone(), |room| fitted(&text, room));
        let text = format!("{clear}{text}\n");
        // A reader that has seen enough closes the pipe.
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if written.is_err() || once {
            return Ok(exit::DONE);
        }
        std::thread::sleep(EVERY);
    }
}

async fn figures(admin: &str, options: ClientOptions) -> Result<String, CommandError> {
    let endpoint = format!("http://{admin}/top").parse::<Endpoint>();
    let client = Client::with_options(&endpoint.map_err(failed)?, options);
    let text = client.map_err(failed)?.text("").await;
    let text = text.map_err(|error| failed(explained(admin, error)))?;
    if text.starts_with("sentinel ") {
        Ok(printable(&text))
    } else {
        Err(failed(strange(admin, "it answered another text")))
    }
}

/// The columns and rows of the terminal.
fn room() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// The first lines of a text, as many as fit into so many columns and rows with the cursor's own; a line that is too
/// long goes on below, from a whole word.
fn fitted(text: &str, (columns, rows): (usize, usize)) -> String {
    let mut shown: Vec<&str> = Vec::new();
    for line in text.lines() {
        let parts = folded(line, columns);
        if shown.len() + parts.len() >= rows {
            break;
        }
        shown.extend(parts);
    }
    shown.join("\n")
}

/// A line in parts of so many columns. A word that is longer than that is broken.
fn folded(line: &str, columns: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), line);
    while let Some((end, next)) = rest.char_indices().nth(columns) {
        let begun = rest[..end]
            .trim_end_matches(|letter| letter != ' ')
            .trim_end();
        let part = match begun {
            _ if next == ' ' => &rest[..end],
            "" => &rest[..end],
            words => words,
        };
        parts.push(part);
        rest = rest[part.len()..].trim_start();
    }
    parts.push(rest);
    parts
}

fn explained(admin: &str, error: ClientError) -> anyhow::Error {
    let reason = match error {
        ClientError::Unreachable { reason, .. } => reason,
        ClientError::Timeout { .. } => "timed out".to_owned(),
        other => return strange(admin, &other.to_string()),
    };
    anyhow!("{admin} does not answer: {reason}; is sentinel running, and is this its --admin?")
}

fn strange(admin: &str, reason: &str) -> anyhow::Error {
    anyhow!("what answers at {admin} is not the operator's listener of this sentinel: {reason}")
}

/// The figures change no oftener.
const EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);
/// The text has about 3 kB.
const MOST_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_whole_lines_are_shown_as_a_terminal_has_room_for() {
        assert_eq!(fitted("a\nb\nc\n", (80, 3)), "a\nb");
        assert_eq!(fitted("a\nb\nc\n", (80, 4)), "a\nb\nc");
        // Two rows for the second line, or none of it.
        assert_eq!(fitted("a\n12345\nc\n", (4, 3)), "a");
        assert_eq!(fitted("a\n12345\nc\n", (4, 4)), "a\n1234\n5");
        // No figure is broken that fits a line.
        assert_eq!(
            fitted("in 12.5, out 2278.0", (12, 9)),
            "in 12.5, out\n2278.0"
        );
        assert_eq!(
            fitted("in 12.5, out 2278.0", (15, 9)),
            "in 12.5, out\n2278.0"
        );
        assert_eq!(fitted("  ago  ä long", (8, 9)), "  ago  ä\nlong");
        assert_eq!(fitted("a\n", (4, 1)), "");
    }

    #[test]
    fn a_listener_is_named_by_url_address_or_port() {
        for (text, read) in [
            ("26681", "127.0.0.1:26681"),
            ("10.0.0.5:9000", "10.0.0.5:9000"),
            ("http://localhost:26681/", "localhost:26681"),
            ("http://sentinel", "sentinel:26681"),
            ("[::1]:26681", "[::1]:26681"),
        ] {
            assert_eq!(address(text).as_deref(), Ok(read), "{text}");
        }
        for text in ["", "https://10.0.0.5", "http://", "a b"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
