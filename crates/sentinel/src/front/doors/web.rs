//! gRPC-Web: gRPC for browsers, whose answers end in a frame instead of trailers, in base64 if they want text
//! (`grpc/doc/PROTOCOL-WEB.md`).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{
    self, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HeaderValue,
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use wire::doors::{GrpcWeb, decode_pieces};

use crate::config::Cors;
use crate::upstream::{AnswerBody, BodyError};

/// The first byte of a frame that holds trailers.
const TRAILERS: u8 = 0x80;
/// What a page reads of an answer whose call was not served.
const EXPOSED: HeaderValue = HeaderValue::from_static("grpc-status,grpc-message");
/// A day: what browsers keep at most is less.
const PREFLIGHT_SECONDS: HeaderValue = HeaderValue::from_static("86400");

/// The body of a call as gRPC has it; none if it is no base64 where that is wanted.
pub(super) fn decode(web: Option<GrpcWeb>, body: Bytes) -> Option<Bytes> {
    match web {
        Some(GrpcWeb::Text) => decode_pieces(&body).map(Bytes::from),
        Some(GrpcWeb::Binary) | None => Some(body),
    }
}

/// The headers of a call as gRPC has them.
pub(super) fn translate(headers: &mut HeaderMap) {
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/grpc+proto"),
    );
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    for name in ["x-grpc-web", "content-length", "origin", "accept"] {
        headers.remove(name);
    }
}

/// An answer of gRPC as gRPC-Web has it.
pub(super) fn wrap(web: GrpcWeb, answer: Response<AnswerBody>) -> Response<WebBody> {
    let mut answer = answer.map(|body| WebBody {
        body,
        web: Some(web),
    });
    let kind = match web {
        GrpcWeb::Binary => "application/grpc-web+proto",
        GrpcWeb::Text => "application/grpc-web-text+proto",
    };
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::TRAILER);
    answer
}

/// Whether a browser asks what a page of another origin may send.
pub(super) fn is_preflight<T>(request: &Request<T>) -> bool {
    request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Lets a page read an answer, if its origin may.
pub(super) fn allow(cors: &Cors, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
    let allowed = origin.and_then(|origin| cors.allows(origin.as_bytes()));
    if let Some(allowed) = allowed.and_then(|allowed| HeaderValue::from_maybe_shared(allowed).ok())
    {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

/// The answer to a browser that asks: what it wants to send it may, if its origin may read answers.
pub(super) fn preflight<T>(cors: &Cors, request: &Request<T>) -> Response<AnswerBody> {
    let mut answer = Response::new(AnswerBody::default());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let (asked, headers) = (request.headers(), answer.headers_mut());
    allow(cors, asked.get(header::ORIGIN), headers);
    if headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN) {
        for (asks, allows) in [
            (ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_ALLOW_METHODS),
            (ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_ALLOW_HEADERS),
        ] {
            if let Some(value) = asked.get(asks) {
                headers.insert(allows, value.clone());
            }
        }
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, PREFLIGHT_SECONDS);
    }
    answer
}

/// The body of an answer, as it is or as gRPC-Web has it.
pub(super) struct WebBody {
    body: AnswerBody,
    web: Option<GrpcWeb>,
}

impl WebBody {
    /// A body that is passed on as it is.
    pub(super) const fn plain(body: AnswerBody) -> Self {
        Self { body, web: None }
    }
}

impl Body for WebBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(match (self.web, frame) {
            (Some(web), Some(Ok(frame))) => Some(Ok(Frame::data(written(web, frame)))),
            (_, frame) => frame,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// A part of an answer as gRPC-Web has it. Each part of a text is padded by itself, as Envoy does.
fn written(web: GrpcWeb, frame: Frame<Bytes>) -> Bytes {
    let bytes = match frame.into_data() {
        Ok(data) => data,
        Err(frame) => trailers(&frame.into_trailers().unwrap_or_default()).into(),
    };
    match web {
        GrpcWeb::Binary => bytes,
        GrpcWeb::Text => base64_simd::STANDARD.encode_to_string(&bytes).into(),
    }
}

/// Trailers as a frame.
fn trailers(trailers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in trailers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            lines.extend_from_slice(part);
        }
    }
    // Headers of a connection are bounded far below that.
    let len = u32::try_from(lines.len()).unwrap_or(u32::MAX);
    [&[TRAILERS][..], &len.to_be_bytes(), &lines].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_a_frame() {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", 0.into());
        assert_eq!(trailers(&headers), b"\x80\0\0\0\x10grpc-status: 0\r\n");
    }
}
