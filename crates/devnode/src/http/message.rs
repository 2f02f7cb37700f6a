//! Requests and responses.

use std::time::{SystemTime, UNIX_EPOCH};

use wire::date::HttpDate;
use wire::json::write as json;

/// Bodies above this go out in chunks, as Go's server sends what does not fit its buffer.
const CHUNKED_ABOVE: usize = 2048;

/// A request that was read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// What follows the method: path and query, not decoded.
    pub(crate) target: String,
    /// HTTP/1.1 and not 1.0.
    pub(crate) modern: bool,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Why the body could not be read, if it could not.
    pub(crate) broken_body: Option<&'static str>,
}

impl Request {
    /// The path without the query.
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The query, empty if there is none.
    pub(crate) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The first header of a name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether a comma-separated header has a word, whatever its case.
    pub(crate) fn has_token(&self, name: &str, token: &str) -> bool {
        let values = self.headers.iter().filter(|(known, _)| known == name);
        values
            .flat_map(|(_, value)| value.split(','))
            .any(|word| word.trim().eq_ignore_ascii_case(token))
    }

    /// Whether the connection may carry another request.
    pub(crate) fn keeps_alive(&self) -> bool {
        if self.modern {
            !self.has_token("connection", "close")
        } else {
            self.has_token("connection", "keep-alive")
        }
    }
}

/// A response. Headers are written in the order in which they are given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the connection ends with it.
    pub(crate) close: bool,
}

impl Response {
    pub(crate) fn new(status: u16, content_type: &str, body: Vec<u8>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type", content_type.to_owned())],
            body,
            close: false,
        }
    }

    /// Appends the response as it goes over the wire.
    pub(crate) fn write(&self, out: &mut Vec<u8>, request: &Request, keep_alive: bool) {
        json::raw(
            out,
            if request.modern {
                "HTTP/1.1 "
            } else {
                "HTTP/1.0 "
            },
        );
        json::int(out, self.status);
        out.push(b' ');
        json::raw(out, reason(self.status));
        json::raw(out, "\r\n");
        for (name, value) in &self.headers {
            header(out, name, value);
        }
        if self.status == 101 {
            json::raw(out, "\r\n");
            return;
        }
        match (keep_alive, request.modern) {
            (false, true) => header(out, "Connection", "close"),
            (true, false) => header(out, "Connection", "keep-alive"),
            _ => {}
        }
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        json::raw(out, "Date: ");
        out.extend_from_slice(HttpDate::new(seconds).as_bytes());
        json::raw(out, "\r\n");
        let chunked = request.modern && self.body.len() > CHUNKED_ABOVE;
        if chunked {
            header(out, "Transfer-Encoding", "chunked");
        } else {
            json::raw(out, "Content-Length: ");
            json::int(out, self.body.len());
            json::raw(out, "\r\n");
        }
        json::raw(out, "\r\n");
        if request.method == "HEAD" {
            return;
        }
        if chunked {
            json::raw(out, &format!("{:x}\r\n", self.body.len()));
            out.extend_from_slice(&self.body);
            json::raw(out, "\r\n0\r\n\r\n");
        } else {
            out.extend_from_slice(&self.body);
        }
    }
}

fn header(out: &mut Vec<u8>, name: &str, value: &str) {
    json::raw(out, name);
    json::raw(out, ": ");
    json::raw(out, value);
    json::raw(out, "\r\n");
}

fn reason(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, modern: bool) -> Request {
        Request {
            method: method.to_owned(),
            target: "/a?b=\"c\"".to_owned(),
            modern,
            headers: vec![("connection".to_owned(), "Upgrade, Keep-Alive".to_owned())],
            body: Vec::new(),
            broken_body: None,
        }
    }

    fn written(body: Vec<u8>, request: &Request) -> String {
        let mut out = Vec::new();
        Response::new(200, "text/html", body).write(&mut out, request, true);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn large_bodies_are_chunked_for_those_who_understand_it() {
        assert!(
            written(vec![b'x'; 2048], &request("GET", true)).contains("Content-Length: 2048\r\n")
        );
        assert!(
            written(vec![b'x'; 2049], &request("GET", true)).contains("chunked\r\n\r\n801\r\nx")
        );
        assert!(
            written(vec![b'x'; 2049], &request("GET", false)).contains("Content-Length: 2049\r\n")
        );
    }

    #[test]
    fn a_head_has_the_length_but_not_the_body() {
        let text = written(b"body".to_vec(), &request("HEAD", true));
        assert!(text.ends_with("Content-Length: 4\r\n\r\n"));
    }

    #[test]
    fn tokens_and_parts_are_told_apart() {
        let request = request("GET", false);
        assert_eq!((request.path(), request.query()), ("/a", "b=\"c\""));
        assert!(request.has_token("connection", "upgrade"));
        assert!(request.keeps_alive());
    }
}
