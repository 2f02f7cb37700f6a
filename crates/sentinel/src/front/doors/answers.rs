//! Answers that are made here.

use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Response};
use wire::doors::NoBroadcast;

use super::tx_response::TxResponse;
use crate::refusal::Refusal;
use crate::respond::{GrpcStatus, http_status};
use crate::upstream::DoorBody;

/// Why a call has no answer of the node's: it ends, or is refused, which is counted.
pub(super) enum Failure {
    Ended(GrpcStatus),
    Refused(Refusal),
}

impl From<NoBroadcast> for Failure {
    fn from(error: NoBroadcast) -> Self {
        Self::Ended(error.into())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");

/// A broadcast as gRPC answers it.
pub(super) fn grpc_answer(response: &TxResponse) -> Response<DoorBody> {
    let mut trailers = HeaderMap::new();
    GrpcStatus::new(GrpcStatus::OK, "").write(&mut trailers);
    let mut answer = Response::new(DoorBody::Own {
        data: Some(response.frame().into()),
        trailers: Some(trailers),
    });
    answer.headers_mut().insert(header::CONTENT_TYPE, GRPC);
    answer
}

/// The end of a call that was not served, as gRPC or as its gateway writes it.
pub(super) fn ended(status: &GrpcStatus, is_grpc: bool) -> Response<DoorBody> {
    if is_grpc {
        let mut answer = Response::new(DoorBody::Own {
            data: None,
            trailers: None,
        });
        answer.headers_mut().insert(header::CONTENT_TYPE, GRPC);
        status.write(answer.headers_mut());
        return answer;
    }
    let body = serde_json::json!({"code": status.code, "message": status.message, "details": []});
    let mut answer = json_answer(http_status(status.code), body.to_string().into_bytes());
    if let Some(after) = status.retry_after {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    answer
}

/// JSON in whole.
pub(super) fn json_answer(status: u16, body: Vec<u8>) -> Response<DoorBody> {
    let length = body.len();
    let mut answer = Response::new(DoorBody::Own {
        data: Some(body.into()),
        trailers: None,
    });
    *answer.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    let headers = answer.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CONTENT_LENGTH, length.into());
    answer
}
