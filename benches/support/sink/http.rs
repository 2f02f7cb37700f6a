//! HTTP/1.1 requests with a Content-Length, the upgrade to WebSocket, and the witness of arrivals.

use std::io::{self, Write as _};

use wire::http::{BodyLength, Framing, HeadLimits, HeadReader, ResponseHead, Version};

use super::message::{self, Request};
use super::{Arrivals, Step, websocket};

/// Answers one request of the input.
pub(super) fn answer(input: &[u8], out: &mut Vec<u8>, arrivals: &mut Arrivals) -> io::Result<Step> {
    // A request is read as a whole, so nothing is gained by remembering how far it was looked at.
    let Some(head) = HeadReader::new()
        .read(input, &LIMITS)
        .map_err(io::Error::other)?
    else {
        return Ok(Step::Incomplete);
    };
    let view = head.view(input);
    if let Some(key) = view.first("sec-websocket-key") {
        websocket::upgrade(std::str::from_utf8(key).map_err(io::Error::other)?, out);
        return Ok(Step::Upgraded(head.len));
    }
    let Framing::Length(length) = head.framing else {
        return Err(io::Error::other("the sink reads no chunks"));
    };
    let (start, end) = (head.len, head.len.saturating_add(length as usize));
    let Some(body) = input.get(start..end) else {
        return Ok(Step::Incomplete);
    };
    if matches!(view.target, b"/arrivals" | b"/arrivals/start") {
        write_arrivals(view.target, arrivals, out);
        return Ok(Step::Skipped(end));
    }
    let call = if body.is_empty() { view.target } else { body };
    let request = write_answer(call, out)?;
    Ok(Step::answered(request, end))
}

fn write_arrivals(path: &[u8], arrivals: &mut Arrivals, out: &mut Vec<u8>) {
    let mut counts = Vec::new();
    match path {
        b"/arrivals" => arrivals.finish(&mut counts),
        _ => arrivals.start(),
    }
    ResponseHead::start(out, Version::Http11, 200)
        .field("Content-Type", b"application/json")
        .finish(BodyLength::Known(counts.len() as u64), true);
    out.append(&mut counts);
}

/// The length has four digits, so that it can be filled in once the body is made.
fn write_answer(body: &[u8], out: &mut Vec<u8>) -> io::Result<Request> {
    out.extend_from_slice(HEAD);
    let length_at = out.len() - LENGTH_FROM_END;
    let body_at = out.len();
    let request = message::answer(body, out);
    let length = out.len() - body_at;
    write!(&mut out[length_at..], "{length:04}")?;
    Ok(request)
}

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 0000\r\n\r\n";
/// From the length's first digit to the end of the head.
const LENGTH_FROM_END: usize = 8;
const LIMITS: HeadLimits = HeadLimits {
    bytes: 64 << 10,
    fields: 32,
    target: 64 << 10,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_one_by_one() {
        let body = r#"{"id":7,"method":"broadcast_tx_async"}"#;
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let twice = request.repeat(2);
        let mut out = Vec::new();
        assert_eq!(
            answer(&twice.as_bytes()[..20], &mut out, &mut Arrivals::default()).unwrap(),
            Step::Incomplete
        );
        assert_eq!(
            answer(twice.as_bytes(), &mut out, &mut Arrivals::default()).unwrap(),
            Step::Answered(request.len())
        );
        let text = String::from_utf8(out).unwrap();
        let (head, answered) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.ends_with(&format!("Content-Length: {:04}", answered.len())),
            "{head}"
        );
        assert!(answered.contains("\"id\":7"));
    }
}
