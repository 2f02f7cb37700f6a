//! From a request's bytes to what is to be done with it.

use std::ops::Range;

use bytes::Bytes;
use fairq::ClientKey;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use rpc::BroadcastMethod;
use wire::calls::{self, Call, Classified, UriRoute, classify_uri};
use wire::http::{Head, HeadView};
use wire::ws::{HandshakeError, check_handshake};

use super::answers::unix_seconds;
use super::request::Request;
use super::work::{Batch, Broadcast, CallInfo, Element, Forward, Other, Plan};
use crate::front::Shared;
use crate::front::backend::Backend;
use crate::identity::{Identity, denied};
use crate::keys::KnownKeys;
use crate::metrics::MethodClass;
use crate::refusal::{Reason, Refusal};
use crate::respond::Asked;
use crate::upstream::{ReadRequest, changes, price};

/// A request taken apart, nothing copied yet.
struct Parts<'a, B> {
    front: &'a Shared<B>,
    head: &'a Head,
    view: HeadView<'a>,
    body: &'a [u8],
    client: ClientKey,
    known: &'a KnownKeys,
}

/// What is to be done with a request of this client, known by these keys, and how its answer is written; `input`
/// is what it was read from.
pub(super) fn plan<B: Backend>(
    front: &Shared<B>,
    request: &Request,
    input: &[u8],
    (identity, known): (Identity, &KnownKeys),
) -> (Plan, Asked) {
    let bytes = request.bytes(input);
    let (head_bytes, body) = bytes.split_at(request.head.len.min(bytes.len()));
    let view = request.head.view(head_bytes);
    let asked = Asked {
        version: request.head.version,
        keep_alive: request.head.keep_alive && !front.leave.is_cancelled(),
        with_body: view.method != b"HEAD",
        at: unix_seconds(),
    };
    let parts = Parts {
        front,
        head: &request.head,
        view,
        body,
        client: identity.client,
        known,
    };
    let allowed = identity.allowed.then_some(()).ok_or_else(denied);
    let plan = match front.shadow.judge(identity.client, allowed) {
        Ok(_) => parts.by_target(),
        Err(refusal) => other(Other::Deny(parts.unknown_call(), refusal)),
    };
    (plan, asked)
}

impl<B: Backend> Parts<'_, B> {
    fn by_target(&self) -> Plan {
        let target = classify_uri(self.view.target);
        let method = target.method.as_ref();
        match target.kind {
            // A tunnel is nothing that the node offers.
            _ if self.view.method == b"CONNECT" => {
                let refusal = Refusal::new(Reason::Parse, "CONNECT is not served here");
                other(Other::Deny(self.unknown_call(), refusal))
            }
            // The node has no such route, and answers that.
            _ if target.is_v1 && !self.front.backend.has_v1_routes() => {
                self.read(CallInfo::uri(MethodClass::Other), None)
            }
            UriRoute::Root if !self.body.is_empty() => self.by_body(),
            UriRoute::Root => self.read(CallInfo::uri(MethodClass::Other), None),
            UriRoute::Write { method, tx } => {
                let call = CallInfo::uri(MethodClass::of_broadcast(method));
                self.by_write(call, method, tx.filter(|_| self.body.is_empty()))
            }
            UriRoute::WebSocket => other(self.by_handshake()),
            UriRoute::Read => {
                let call = CallInfo::uri(MethodClass::of(method));
                self.read(call, Some(method.into()))
            }
        }
    }

    fn by_handshake(&self) -> Other {
        if !self.body.is_empty() {
            return Other::NotUpgraded(HandshakeError::Malformed);
        }
        let config = self.front.config.load();
        let origins = config.cors.sockets();
        match check_handshake(&self.view, self.head.version, origins) {
            Ok(accept) => Other::Upgrade(accept),
            Err(error) => Other::NotUpgraded(error),
        }
    }

    fn by_body(&self) -> Plan {
        match calls::classify(self.body, &self.front.json_limits()) {
            Ok(Classified::One(call)) => self.by_call(call),
            Ok(Classified::Batch(elements)) => self.by_elements(elements),
            Ok(Classified::Unparsable) => self.read(CallInfo::post(MethodClass::Other, None), None),
            Err(over) => self.by_refusal(CallInfo::post(MethodClass::Other, None), over.into()),
        }
    }

    fn by_call(&self, call: Call<'_>) -> Plan {
        match call {
            Call::Write { id, method, tx } => {
                let call = CallInfo::post(MethodClass::of_broadcast(method), Some(&id));
                self.by_write(call, method, Some(tx))
            }
            Call::Read { id, method } => {
                let call = CallInfo::post(MethodClass::of(&method), Some(&id));
                let body = Bytes::copy_from_slice(self.body);
                let price = price(&method, b"/", self.body);
                let request = ReadRequest {
                    id: Some(id.as_str().into()),
                    ..self.request(body, Some(method.into()), price)
                };
                other(Other::Forward(Forward { call, request }))
            }
            Call::Notification => other(Other::Notifications),
        }
    }

    fn by_write(&self, call: CallInfo, method: BroadcastMethod, tx: Option<Bytes>) -> Plan {
        // A node answers a preflight without executing anything, or executes it.
        let tx = tx.filter(|_| self.view.first("access-control-request-method").is_none());
        let backend = &self.front.backend;
        match (backend.check_method(self.client, method.name()), tx) {
            (Err(refusal), _) => self.by_refusal(call, refusal),
            (Ok(()), None) => self.by_refusal(call, Refusal::unreadable()),
            (Ok(()), Some(tx)) if self.front.shadow.is_on() => {
                backend.judge(self.client, tx);
                self.with_writes(call, 0)
            }
            (Ok(()), Some(tx)) => Plan::Broadcast(Broadcast { call, method, tx }),
        }
    }

    /// What is refused unless it is in shadow: then the node judges it.
    fn by_refusal(&self, call: CallInfo, refusal: Refusal) -> Plan {
        match self.front.shadow.judge(self.client, Err::<(), _>(refusal)) {
            Ok(_) => self.with_writes(call, 0),
            Err(refusal) => other(Other::Refuse(call, refusal)),
        }
    }

    /// Something that broadcasts are in, or may be, goes to the node as it came, and is not sent there twice.
    fn with_writes(&self, call: CallInfo, calls: u32) -> Plan {
        let request = ReadRequest {
            has_writes: true,
            ..self.request(Bytes::copy_from_slice(self.body), None, calls)
        };
        other(Other::Forward(Forward { call, request }))
    }

    /// A batch is taken apart if a write is in it, or a method that changes something or is refused; else it goes to the
    /// node as a whole.
    fn by_elements(&self, elements: Vec<calls::Element<'_>>) -> Plan {
        let backend = &self.front.backend;
        let body = Bytes::copy_from_slice(self.body);
        let elements = elements.into_iter().map(|element| {
            let (id, method, class) = match &element.call {
                Call::Write { id, method, .. } => {
                    (id, method.name(), MethodClass::of_broadcast(*method))
                }
                Call::Read { id, method } => (id, method.as_ref(), MethodClass::of(method)),
                Call::Notification => return Element::Notification,
            };
            let call = CallInfo::post(class, Some(id));
            let raw = body.slice(place(self.body, element.raw));
            match (backend.check_method(self.client, method), element.call) {
                (Err(refusal), _) => Element::Refused { call, refusal },
                (Ok(()), Call::Write { method, tx, .. }) => {
                    Element::Write(Broadcast { call, method, tx })
                }
                (Ok(()), Call::Read { method, .. }) => Element::Forward {
                    call,
                    price: price(&method, b"/", &raw),
                    changing: changes(&method).then(|| method.into()),
                    raw,
                },
                (Ok(()), Call::Notification) => Element::Notification,
            }
        });
        let elements: Vec<Element> = elements.collect();
        let is_whole = elements.iter().all(Element::is_read);
        let calls = elements.iter().map(Element::price);
        let calls = calls.fold(0, u32::saturating_add);
        if !is_whole && self.front.shadow.is_on() {
            self.judge(&elements);
            return self.with_writes(CallInfo::post(MethodClass::Other, None), calls);
        }
        let request = self.request(body, None, calls.max(1));
        if is_whole {
            let call = CallInfo::post(MethodClass::Other, None);
            return other(Other::Forward(Forward { call, request }));
        }
        other(Other::Batch(Batch { request, elements }))
    }

    /// In shadow a batch goes to the node as a whole, and each of its calls is judged.
    fn judge(&self, elements: &[Element]) {
        for element in elements {
            match element {
                Element::Write(Broadcast { tx: call, .. })
                | Element::Forward {
                    changing: Some(_),
                    raw: call,
                    ..
                } => self.front.backend.judge(self.client, call.clone()),
                Element::Refused { refusal, .. } => self.front.shadow.note(self.client, refusal),
                Element::Forward { .. } | Element::Notification => {}
            }
        }
    }

    /// The call of a request that is refused before it is looked at.
    fn unknown_call(&self) -> CallInfo {
        if self.body.is_empty() {
            CallInfo::uri(MethodClass::Other)
        } else {
            CallInfo::post(MethodClass::Other, None)
        }
    }

    fn read(&self, call: CallInfo, method: Option<Box<str>>) -> Plan {
        let of_method = |method| price(method, self.view.target, self.body);
        let price = method.as_deref().map_or(1, of_method);
        let request = self.request(Bytes::copy_from_slice(self.body), method, price);
        other(Other::Forward(Forward { call, request }))
    }

    /// The request as the node gets it.
    fn request(&self, body: Bytes, method: Option<Box<str>>, calls: u32) -> ReadRequest {
        let mut headers = HeaderMap::new();
        for field in self.view.end_to_end() {
            if self.known.is_header(field.name) {
                continue;
            }
            let name = HeaderName::from_bytes(field.name.as_bytes());
            // What is no header for the library was none for the decoder of heads.
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) {
                headers.append(name, value);
            }
        }
        ReadRequest {
            http_method: Method::from_bytes(self.view.method).unwrap_or_default(),
            target: match self.known.without_secret(origin_form(self.view.target)) {
                Some(target) => target.into(),
                None => Bytes::copy_from_slice(origin_form(self.view.target)),
            },
            headers,
            body,
            method,
            id: None,
            calls,
            has_writes: false,
        }
    }
}

fn other(other: Other) -> Plan {
    Plan::Other(Box::new(other))
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
