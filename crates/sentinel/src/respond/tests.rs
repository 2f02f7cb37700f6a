//! Answers as a real CometBFT 0.38.17 gave them, byte for byte, and refusals beside them.

use std::time::Duration;

use wire::http::HttpError;

use super::*;
use crate::refusal::{Reason, Refusal};

const ASKED: Asked = Asked {
    version: Version::Http11,
    keep_alive: true,
    with_body: true,
    at: 1_795_239_954,
};

const RESULT: &[u8] = br#""result":{"code":0,"data":"","log":"","codespace":"","hash":"C22FEA5D7428E5CF47EF6354C97C9223C95D6DCDC3E0D2300FF79056B1FF3D85"}"#;
const ERROR: &[u8] =
    br#""error":{"code":-32603,"message":"Internal error","data":"tx already exists in cache"}"#;

fn written(asked: Asked, write: impl FnOnce(HttpAnswer<'_>)) -> String {
    let mut out = Vec::new();
    write(HttpAnswer::new(
        &mut out,
        asked,
        &HttpDate::new(1_795_239_954),
    ));
    String::from_utf8(out).unwrap()
}

fn head_and_body(text: &str) -> (&str, &str) {
    text.split_once("\r\n\r\n").unwrap()
}

#[test]
fn a_result_by_post() {
    assert_eq!(
        written(ASKED, |answer| answer.member(Form::Post(Some("1")), RESULT)),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Server-Time: 1795239954\r\n\
         Date: Sat, 21 Nov 2026 05:45:54 GMT\r\nContent-Length: 152\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"code\":0,\"data\":\"\",\"log\":\"\",\"codespace\":\"\",\
         \"hash\":\"C22FEA5D7428E5CF47EF6354C97C9223C95D6DCDC3E0D2300FF79056B1FF3D85\"}}"
    );
}

#[test]
fn an_error_by_post_and_by_uri() {
    let close = Asked {
        keep_alive: false,
        ..ASKED
    };
    assert_eq!(
        written(close, |answer| answer.member(Form::Post(Some("1")), ERROR)),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Server-Time: 1795239954\r\n\
         Date: Sat, 21 Nov 2026 05:45:54 GMT\r\nContent-Length: 111\r\nConnection: close\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32603,\"message\":\"Internal error\",\
         \"data\":\"tx already exists in cache\"}}"
    );
    assert_eq!(
        written(ASKED, |answer| answer.member(Form::Uri, ERROR)),
        "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n\
         X-Server-Time: 1795239954\r\nDate: Sat, 21 Nov 2026 05:45:54 GMT\r\nContent-Length: 112\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"id\":-1,\"error\":{\"code\":-32603,\"message\":\"Internal error\",\
         \"data\":\"tx already exists in cache\"}}"
    );
}

#[test]
fn a_notification_gets_an_empty_200() {
    assert_eq!(
        written(ASKED, |answer| answer.nothing()),
        "HTTP/1.1 200 OK\r\nX-Server-Time: 1795239954\r\nDate: Sat, 21 Nov 2026 05:45:54 GMT\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn an_old_client_is_answered_in_its_version() {
    let asked = Asked {
        version: Version::Http10,
        ..ASKED
    };
    let text = written(asked, |answer| answer.member(Form::Uri, RESULT));
    assert!(text.starts_with("HTTP/1.0 200 OK\r\n"));
    assert!(text.contains("Content-Length: 153\r\nConnection: keep-alive\r\n\r\n"));
}

#[test]
fn large_answers_come_in_chunks() {
    let member = |len: usize| format!("\"result\":\"{}\"", "x".repeat(len)).into_bytes();
    // 2048 bytes in all: the head takes 24 and the quotes and names 12.
    let (fits, over) = (member(2048 - 36), member(2049 - 36));
    let form = Form::Post(Some("1"));
    assert!(
        written(ASKED, |answer| answer.member(form, &fits)).contains("Content-Length: 2048\r\n")
    );
    let text = written(ASKED, |answer| answer.member(form, &over));
    let (head, body) = head_and_body(&text);
    assert!(head.ends_with("GMT\r\nTransfer-Encoding: chunked"));
    assert!(body.starts_with("801\r\n{\"jsonrpc\"") && body.ends_with("\"}\r\n0\r\n\r\n"));
    let head_only = Asked {
        with_body: false,
        ..ASKED
    };
    let text = written(head_only, |answer| answer.member(form, &over));
    assert!(text.ends_with("GMT\r\n\r\n"));
}

#[test]
fn case_39_a_batch_of_one_answer_is_bare() {
    let answers = |count| {
        let mut answer = Vec::new();
        write_answer(&mut answer, Some("\"a\""), br#""result":{}"#);
        vec![answer; count]
    };
    let body = |count| {
        let text = written(ASKED, |answer| answer.batch(&answers(count)));
        head_and_body(&text).1.to_owned()
    };
    let one = r#"{"jsonrpc":"2.0","id":"a","result":{}}"#;
    assert_eq!(body(0), "");
    assert_eq!(body(1), one);
    assert_eq!(body(3), format!("[{one},{one},{one}]"));
    assert_eq!(
        written(ASKED, |answer| answer.batch(&[])),
        written(ASKED, |answer| answer.nothing())
    );
}

#[test]
fn case_39_too_large_a_batch_is_refused_as_the_node_does() {
    let refusal = Refusal::new(
        Reason::Batch,
        "batch request exceeds maximum (10) allowed number of requests",
    );
    assert_eq!(
        written(ASKED, |answer| answer.refused(Form::Post(None), &refusal)),
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
         Date: Sat, 21 Nov 2026 05:45:54 GMT\r\nContent-Length: 140\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"Invalid Request\",\
         \"data\":\"batch request exceeds maximum (10) allowed number of requests\"}}"
    );
}

#[test]
fn a_handshake_is_answered_as_the_node_does() {
    assert_eq!(
        written(ASKED, |answer| answer
            .upgraded("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    );
    assert_eq!(
        written(ASKED, |answer| answer
            .not_upgraded(HandshakeError::Malformed)),
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Sec-Websocket-Version: 13\r\nX-Content-Type-Options: nosniff\r\n\
         X-Server-Time: 1795239954\r\nDate: Sat, 21 Nov 2026 05:45:54 GMT\r\n\
         Content-Length: 12\r\n\r\nBad Request\n"
    );
}

#[test]
fn a_refusal_says_when_to_come_back_and_what_became_of_it() {
    let refusal = Refusal::new(Reason::QueueFull, "1024 of your \"writes\" are waiting")
        .retry_after(Duration::from_millis(1_001));
    let text = written(ASKED, |answer| {
        answer.refused(Form::Post(Some("\"x\"")), &refusal);
    });
    let (head, body) = head_and_body(&text);
    assert_eq!(
        head,
        format!(
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 2\r\n\
             X-Sentinel-Reason: queue_full\r\nX-Server-Time: 1795239954\r\n\
             Date: Sat, 21 Nov 2026 05:45:54 GMT\r\nContent-Length: {}",
            body.len()
        )
    );
    assert_eq!(
        body,
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32603,\"message\":\"Internal error\",\
         \"data\":\"mempool is full: 1024 of your \\\"writes\\\" are waiting (reason: queue_full, \
         retry_after_ms: 1001, not forwarded)\"}}"
    );
}

#[test]
fn an_unknown_outcome_is_not_called_a_refusal() {
    let refusal = Refusal::new(Reason::Upstream, "the node went away").maybe_forwarded();
    let text = written(ASKED, |answer| answer.refused(Form::Uri, &refusal));
    let (head, body) = head_and_body(&text);
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
    assert!(!head.contains("Retry-After"));
    assert!(body.contains("\"id\":-1,"));
    assert!(body.contains("(reason: upstream, forwarded, outcome unknown)"));
}

#[test]
fn every_reason_has_a_status_and_is_json() {
    let expected = |reason| match reason {
        Reason::Rate | Reason::QueueFull | Reason::QueueTimeout | Reason::Connections => 429,
        Reason::Bytes | Reason::Clients | Reason::Shutdown | Reason::Upstream => 503,
        Reason::Body => 413,
        Reason::Parse => 400,
        Reason::Denied | Reason::Method => 403,
        Reason::Batch => 200,
    };
    for reason in Reason::ALL {
        let refusal = Refusal::new(reason, "why").retry_after(Duration::from_secs(3));
        let text = written(ASKED, |answer| {
            answer.refused(Form::Post(Some("1")), &refusal);
        });
        let (head, body) = head_and_body(&text);
        let status = format!("HTTP/1.1 {} ", expected(reason));
        assert!(head.starts_with(&status), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(body["error"]["data"].as_str().unwrap().contains("why"));
        assert_eq!(body["id"], 1);
    }
}

#[test]
fn what_is_no_request_is_answered_in_json_and_ends_the_connection() {
    for (error, status) in [
        (HttpError::RequestLine, 400),
        (HttpError::LineEnd, 400),
        (HttpError::Field, 400),
        (HttpError::Host, 400),
        (HttpError::Framing, 400),
        (HttpError::Chunk, 400),
        (HttpError::HeadTimeout, 408),
        (HttpError::BodyTimeout, 408),
        (HttpError::BodyTooLarge(5), 413),
        (HttpError::TargetTooLong(5), 414),
        (HttpError::Expectation, 417),
        (HttpError::HeadTooLarge(5), 431),
        (HttpError::TooManyFields(5), 431),
    ] {
        let text = written(ASKED, |answer| answer.malformed(error));
        let (head, body) = head_and_body(&text);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.ends_with("Connection: close"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], -32_600);
        assert!(
            body["error"]["data"]
                .as_str()
                .unwrap()
                .contains("not forwarded")
        );
        assert!(body.get("id").is_none());
    }
}

#[test]
fn websocket_answers_are_one_frame() {
    let mut out = Vec::new();
    write_ws_answer(&mut out, Some("7"), br#""result":{}"#);
    let body = br#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
    assert_eq!(out, [&[0x81, body.len() as u8][..], body].concat());
    out.clear();
    let refusal = Refusal::new(Reason::Rate, "slowly");
    write_ws_answer(&mut out, None, &refusal_member(&refusal));
    assert_eq!(&out[..4], [0x81, 126, 0, (out.len() - 4) as u8]);
    let mut expected = Vec::new();
    write_answer(&mut expected, None, &refusal_member(&refusal));
    assert_eq!(&out[4..], expected);
}

#[test]
fn names_are_spelt_as_the_node_does() {
    for (name, expected) in [
        ("x-server-time", "X-Server-Time"),
        ("content-type", "Content-Type"),
        ("access-control-allow-origin", "Access-Control-Allow-Origin"),
        ("etag", "Etag"),
    ] {
        assert_eq!(go_name(&HeaderName::from_static(name)), expected);
    }
}
