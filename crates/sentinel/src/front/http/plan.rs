//! From a request's bytes to what is to be done with it.

use std::ops::Range;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use rpc::BroadcastMethod;
use wire::jsonrpc::RequestId;

use super::Connection;
use super::answer::{Tail, unix_seconds};
use super::batch::{Batch, Element};
use super::incoming::Incoming;
use crate::front::backend::Backend;
use crate::front::socket::Stream;
use crate::identity::{FORWARDED_FOR, Identity};
use crate::jsonrpc::{self, Call, Classified, KeptId, TargetKind, classify_uri};
use crate::metrics::{MethodClass, Transport};
use crate::refusal::{Reason, Refusal};
use crate::upstream::ReadRequest;
use wire::http::{Head, HeadView};
use wire::ws::{HandshakeError, check_handshake};

/// What is to be done with a request.
pub(super) enum Plan {
    /// The common case: one broadcast in plain form.
    Write(PlainWrite),
    /// Something else.
    Cold(Box<Cold>),
}

/// A broadcast that was decoded.
pub(super) struct PlainWrite {
    pub(super) client: ClientKey,
    pub(super) to: To,
    pub(super) method: BroadcastMethod,
    pub(super) tx: Bytes,
}

/// Everything but the common case.
pub(super) enum Cold {
    /// To be refused, and the connection closed.
    Deny(To, Refusal),
    /// To be refused.
    Refuse(To, Refusal),
    /// Nothing but notifications: the node does nothing and answers nothing.
    Nothing,
    /// To be forwarded.
    Read(Forward),
    /// To be forwarded when its turn as a write has come.
    Unusual(Forward),
    /// Several calls, writes among them.
    Batch(Batch),
    /// To become a WebSocket, with that key as the answer.
    Upgrade(ClientKey, String),
    /// No handshake.
    NotUpgraded(HandshakeError),
}

/// A request that goes to the node as it came.
pub(super) struct Forward {
    pub(super) client: ClientKey,
    pub(super) to: To,
    pub(super) request: ReadRequest,
}

/// For whom an answer is.
#[derive(Debug)]
pub(super) struct To {
    pub(super) transport: Transport,
    pub(super) class: MethodClass,
    /// The call's id, if it is known.
    pub(super) id: Option<KeptId>,
}

/// A request taken apart, nothing copied yet.
struct Parts<'a> {
    head: &'a Head,
    view: HeadView<'a>,
    body: &'a [u8],
    client: ClientKey,
}

impl<B: Backend, IO: Stream> Connection<B, IO> {
    /// What is to be done with the request, and what its answer has to heed. Takes the request off
    /// the input.
    pub(super) fn plan(&mut self, incoming: &Incoming) -> (Plan, Tail) {
        let bytes = incoming.bytes(self.socket.input.filled());
        let (head_bytes, body) = bytes.split_at(incoming.head.len.min(bytes.len()));
        let view = incoming.head.view(head_bytes);
        let tail = Tail {
            version: incoming.head.version,
            keep_alive: incoming.head.keep_alive && !self.front.stop.is_cancelled(),
            is_head: view.method == b"HEAD",
            at: unix_seconds(),
        };
        let identity = self.identity(&incoming.head, &view);
        let parts = Parts {
            head: &incoming.head,
            view,
            body,
            client: identity.client,
        };
        let plan = if identity.allowed {
            self.by_target(&parts)
        } else {
            let text = "this network may not use the proxy";
            cold(Cold::Deny(
                To::unknown(&parts),
                Refusal::new(Reason::Denied, text),
            ))
        };
        self.asking = identity.client;
        self.socket.input.consume(incoming.in_place());
        (plan, tail)
    }

    fn identity(&self, head: &Head, view: &HeadView<'_>) -> Identity {
        if !self.peer.is_proxy || !head.forwarded {
            return self.peer.identity;
        }
        let lines: Vec<&[u8]> = view.all(FORWARDED_FOR).collect();
        let identities = &self.front.identities;
        identities.of_request(self.peer.address, lines.into_iter())
    }

    fn by_target(&self, parts: &Parts<'_>) -> Plan {
        let target = classify_uri(parts.view.target);
        let method = target.method.as_ref();
        match target.kind {
            // A tunnel is nothing that the node offers.
            _ if parts.view.method == b"CONNECT" => {
                let refusal = Refusal::new(Reason::Parse, "CONNECT is not served here");
                cold(Cold::Deny(To::unknown(parts), refusal))
            }
            TargetKind::Root if !parts.body.is_empty() => self.by_body(parts),
            TargetKind::Root => parts.read(To::uri(MethodClass::Other), None),
            TargetKind::Write { method, tx } if parts.is_plain(b"GET") => Plan::Write(PlainWrite {
                client: parts.client,
                to: To::uri(MethodClass::of(method.name())),
                method,
                tx,
            }),
            TargetKind::Write { .. } | TargetKind::UnusualWrite { .. } => {
                parts.unusual(To::uri(MethodClass::BroadcastUnusual))
            }
            TargetKind::WebSocket => cold(self.by_handshake(parts)),
            TargetKind::Read => {
                let to = To::uri(MethodClass::of(method));
                parts.read(to, Some(method.into()))
            }
        }
    }

    fn by_handshake(&self, parts: &Parts<'_>) -> Cold {
        if !parts.body.is_empty() {
            return Cold::NotUpgraded(HandshakeError::Malformed);
        }
        let origins = &self.front.config.ws.origins;
        match check_handshake(&parts.view, parts.head.version, origins) {
            Ok(accept) => Cold::Upgrade(parts.client, accept),
            Err(error) => Cold::NotUpgraded(error),
        }
    }

    fn by_body(&self, parts: &Parts<'_>) -> Plan {
        match jsonrpc::classify(parts.body, &self.front.json_limits) {
            Ok(Classified::One(call)) => self.by_call(parts, call),
            Ok(Classified::Batch(elements)) => self.by_elements(parts, elements),
            Ok(Classified::Unparsable) => parts.read(To::post(MethodClass::Other, None), None),
            Err(refusal) => cold(Cold::Refuse(To::post(MethodClass::Other, None), refusal)),
        }
    }

    fn by_call(&self, parts: &Parts<'_>, call: Call<'_>) -> Plan {
        match call {
            Call::Write { id, method, tx } if parts.is_plain(b"POST") => Plan::Write(PlainWrite {
                client: parts.client,
                to: To::post(MethodClass::of(method.name()), Some(&id)),
                method,
                tx,
            }),
            Call::Write { id, .. } | Call::UnusualWrite { id, .. } => {
                parts.unusual(To::post(MethodClass::BroadcastUnusual, Some(&id)))
            }
            Call::Read { id, method } => {
                let to = To::post(MethodClass::of(&method), Some(&id));
                parts.read(to, Some(method.into()))
            }
            Call::Notification => cold(Cold::Nothing),
        }
    }

    /// A batch is taken apart if a write is in it or a method that is refused; else it goes to the
    /// node as a whole.
    fn by_elements(&self, parts: &Parts<'_>, elements: Vec<jsonrpc::Element<'_>>) -> Plan {
        let backend = &self.front.backend;
        let calls = elements
            .iter()
            .filter(|element| !matches!(element.call, Call::Notification))
            .count();
        let body = Bytes::copy_from_slice(parts.body);
        let mut is_split = false;
        let elements = elements.into_iter().map(|element| {
            let raw = body.slice(place(parts.body, element.raw));
            match element.call {
                Call::Write { id, method, tx } => {
                    is_split = true;
                    let to = To::post(MethodClass::of(method.name()), Some(&id));
                    Element::Write { to, method, tx }
                }
                Call::UnusualWrite { id, .. } => {
                    is_split = true;
                    let to = To::post(MethodClass::BroadcastUnusual, Some(&id));
                    Element::Unusual { to, raw }
                }
                Call::Read { id, method } => {
                    let to = To::post(MethodClass::of(&method), Some(&id));
                    match backend.check_method(&method) {
                        Ok(()) => Element::Read { to, raw },
                        Err(refusal) => {
                            is_split = true;
                            Element::Refused { to, refusal }
                        }
                    }
                }
                Call::Notification => Element::Nothing,
            }
        });
        let elements: Vec<Element> = elements.collect();
        let request = parts.request(body, None, u32::try_from(calls).unwrap_or(u32::MAX).max(1));
        if !is_split {
            let to = To::post(MethodClass::Other, None);
            return cold(Cold::Read(Forward {
                client: parts.client,
                to,
                request,
            }));
        }
        cold(Cold::Batch(Batch {
            client: parts.client,
            request,
            elements,
        }))
    }
}

impl Parts<'_> {
    /// Whether the answer depends on nothing but the call: the expected HTTP method, and no
    /// `Origin`, to which a node that serves browsers answers with further headers.
    fn is_plain(&self, method: &[u8]) -> bool {
        let body_is_right = self.body.is_empty() == (method == b"GET");
        self.view.method == method && body_is_right && self.view.first("origin").is_none()
    }

    fn read(&self, to: To, method: Option<Box<str>>) -> Plan {
        let request = self.request(Bytes::copy_from_slice(self.body), method, 1);
        cold(Cold::Read(Forward {
            client: self.client,
            to,
            request,
        }))
    }

    fn unusual(&self, to: To) -> Plan {
        let request = self.request(Bytes::copy_from_slice(self.body), None, 1);
        cold(Cold::Unusual(Forward {
            client: self.client,
            to,
            request,
        }))
    }

    /// The request as the node gets it.
    fn request(&self, body: Bytes, method: Option<Box<str>>, calls: u32) -> ReadRequest {
        let mut headers = HeaderMap::new();
        for field in self.view.end_to_end() {
            let name = HeaderName::from_bytes(field.name.as_bytes());
            // What is no header for the library was none for the decoder of heads.
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) {
                headers.append(name, value);
            }
        }
        ReadRequest {
            http_method: Method::from_bytes(self.view.method).unwrap_or_default(),
            target: Bytes::copy_from_slice(origin_form(self.view.target)),
            headers,
            body,
            method,
            calls,
        }
    }
}

impl To {
    pub(super) fn post(class: MethodClass, id: Option<&RequestId<'_>>) -> Self {
        Self {
            transport: Transport::Post,
            class,
            id: id.map(KeptId::from),
        }
    }

    fn uri(class: MethodClass) -> Self {
        Self {
            transport: Transport::Uri,
            class,
            id: Some(KeptId::from(&RequestId::NONE)),
        }
    }

    /// For a request that is refused before it is looked at.
    fn unknown(parts: &Parts<'_>) -> Self {
        if parts.body.is_empty() {
            Self::uri(MethodClass::Other)
        } else {
            Self::post(MethodClass::Other, None)
        }
    }
}

fn cold(cold: Cold) -> Plan {
    Plan::Cold(Box::new(cold))
}

/// The path and query of a target that may be a whole URL.
fn origin_form(target: &[u8]) -> &[u8] {
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| {
        target
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let Some(scheme) = scheme else {
        return target;
    };
    let rest = &target[scheme.len()..];
    match rest.iter().position(|byte| matches!(byte, b'/' | b'?')) {
        Some(at) if rest[at] == b'/' => &rest[at..],
        _ => b"/",
    }
}

/// Where a part lies in the whole that it was cut from.
fn place(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    let end = (start + part.len()).min(whole.len());
    start.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_29_whole_urls_lose_their_host() {
        for (target, expected) in [
            ("/status", "/status"),
            ("http://node/status?x=1", "/status?x=1"),
            ("HTTP://node:80", "/"),
            ("https://node?x", "/"),
            ("*", "*"),
        ] {
            assert_eq!(
                origin_form(target.as_bytes()),
                expected.as_bytes(),
                "{target}"
            );
        }
    }

    #[test]
    fn a_part_is_found_again() {
        let whole = b"[1,{},3]";
        assert_eq!(place(whole, &whole[3..5]), 3..5);
        assert_eq!(place(whole, whole), 0..8);
    }
}
