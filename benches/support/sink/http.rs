//! HTTP/1.1 requests with a Content-Length, the upgrade to WebSocket, and the witness of arrivals.

use std::io::{self, Write as _};

use super::message::{self, Request};
use super::{Arrivals, Step, websocket};

/// Answers one request of the input.
pub(super) fn answer(input: &[u8], out: &mut Vec<u8>, arrivals: &mut Arrivals) -> io::Result<Step> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(input).map_err(io::Error::other)? {
        httparse::Status::Complete(head) => head,
        httparse::Status::Partial => return Ok(Step::Incomplete),
    };
    let header = |name: &str| {
        request
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value)
    };
    if let Some(key) = header("Sec-WebSocket-Key") {
        websocket::upgrade(key, out);
        return Ok(Step::Upgraded(head));
    }
    let length = match header("Content-Length") {
        None => 0,
        Some(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse::<usize>().ok())
            .ok_or_else(|| io::Error::other("no length"))?,
    };
    let Some(body) = input.get(head..head + length) else {
        return Ok(Step::Incomplete);
    };
    if let Some(path @ ("/arrivals" | "/arrivals/start")) = request.path {
        write_arrivals(path, arrivals, out)?;
        return Ok(Step::Skipped(head + length));
    }
    let call = match request.path {
        Some(target) if body.is_empty() => target.as_bytes(),
        _ => body,
    };
    let request = write_answer(call, out)?;
    Ok(Step::answered(request, head + length))
}

fn write_arrivals(path: &str, arrivals: &mut Arrivals, out: &mut Vec<u8>) -> io::Result<()> {
    let mut counts = Vec::new();
    match path {
        "/arrivals" => arrivals.finish(&mut counts),
        _ => arrivals.start(),
    }
    write!(
        out,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        counts.len()
    )?;
    out.append(&mut counts);
    Ok(())
}

/// The length stands in four digits, so that it can be filled in behind the body's making.
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
const MAX_HEADERS: usize = 32;

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
