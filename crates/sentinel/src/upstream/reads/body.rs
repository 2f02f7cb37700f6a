//! The answer to a read: its body, and its headers on their way to the client.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{self, HeaderName};
use pacing::Nanos;

use super::admission::Admitted;
use crate::budget::Reservation;
use crate::refusal::{Reason, Refusal};
use crate::upstream::body::{Pieces, charged};
use crate::upstream::http::{NodeBody, is_hop_header};
use crate::upstream::node_state::NodeIndex;

/// The node's answer, its body still to be read.
#[derive(Debug)]
pub struct ReadAnswer<B> {
    /// The HTTP status.
    pub status: u16,
    /// The headers as a Go server spells them, without those of connection and framing.
    pub headers: Vec<(Cow<'static, str>, Bytes)>,
    /// `Content-Length`, if the node gave one. The answer to `HEAD` has one and no body.
    pub length: Option<u64>,
    /// From the moment it was sent to the head of the answer; none if no node was asked for it.
    pub took: Option<Nanos>,
    /// Whether it counts as a read of its client's, whose rate bounds the request then.
    pub is_counted: bool,
    /// The body.
    pub body: B,
}

/// An answer's body, read as it is taken. Holds its place in the read lane, and the bytes reserved
/// for what is read ahead, until dropped. An error means that the node broke off or fell silent: the
/// answer's head has gone out by then, so all that is left is to break off as well.
#[derive(Debug)]
pub struct ReadBody {
    /// What is here already.
    ahead: VecDeque<Bytes>,
    /// Bytes of one piece of that, at most.
    piece: usize,
    node: Option<FromNode>,
    /// For what is read ahead.
    _window: Reservation,
}

/// What is still at the node.
#[derive(Debug)]
struct FromNode {
    node: NodeIndex,
    body: NodeBody,
    announced: Announced,
    admitted: Admitted,
}

impl ReadBody {
    /// This node's, of this length if it is known, and what it was admitted with.
    pub(super) fn of_node(
        (node, body): (NodeIndex, NodeBody),
        length: Option<u64>,
        (window, admitted): (Reservation, Admitted),
    ) -> Self {
        Self {
            ahead: VecDeque::new(),
            piece: 0,
            node: Some(FromNode {
                node,
                body,
                announced: Announced(length),
                admitted,
            }),
            _window: window,
        }
    }

    /// One that is here, given out in pieces of so many bytes.
    pub(super) fn of_cache(ahead: [Bytes; 3], piece: usize, window: Reservation) -> Self {
        Self {
            ahead: ahead.into(),
            piece,
            node: None,
            _window: window,
        }
    }

    /// Whether it is this node's, and not here yet.
    pub(super) fn is_of(&self, node: NodeIndex) -> bool {
        let from = self.node.as_ref();
        from.is_some_and(|from| from.node == node)
    }

    /// Reads all of it, and gives the place in the lane back; none if it has more than `most` bytes, or the account has
    /// no room. Then it is as it was, what was read in pieces of at most `piece` bytes.
    ///
    /// # Errors
    /// Those of the node.
    pub(super) async fn whole(
        &mut self,
        mut charge: Reservation,
        (most, piece_bytes): (usize, usize),
    ) -> Result<Option<(Vec<u8>, Reservation)>, Refusal> {
        let mut whole = Vec::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            let len = whole.len() + piece.len();
            if len > most || !charge.grow(len - charge.bytes()) {
                self.piece = piece_bytes;
                self.ahead = [charged(whole, charge), piece].into();
                return Ok(None);
            }
            whole.extend_from_slice(&piece);
        }
        self.node = None;
        whole.shrink_to_fit();
        Ok(Some((whole, charge)))
    }

    /// What was read is read once more.
    pub(super) fn put_back(&mut self, ahead: [Bytes; 3], piece: usize) {
        self.ahead = ahead.into();
        self.piece = piece;
    }
}

impl Pieces for ReadBody {
    type Error = Refusal;

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        while let Some(ahead) = self.ahead.front_mut() {
            let piece = ahead.split_to(ahead.len().min(self.piece));
            if ahead.is_empty() {
                self.ahead.pop_front();
            }
            if !piece.is_empty() {
                return Poll::Ready(Some(Ok(piece)));
            }
        }
        let Some(node) = &mut self.node else {
            return Poll::Ready(None);
        };
        let piece = match ready!(node.body.poll_next(context)).transpose() {
            Ok(piece) => piece,
            Err(error) => return Poll::Ready(Some(Err(error.refusal()))),
        };
        if !node.announced.holds(piece.as_ref().map(Bytes::len)) {
            let text = "the length of the answer is not what the node announced";
            return Poll::Ready(Some(Err(Refusal::new(Reason::Upstream, text))));
        }
        Poll::Ready(piece.map(Ok))
    }

    fn is_wanted(&self) -> bool {
        let node = self.node.as_ref();
        node.is_some_and(|node| node.admitted.is_wanted())
    }
}

/// Bytes that are still to come of those that the client was told of, if it was told a number. The next answer
/// on its connection begins behind them.
#[derive(Debug)]
struct Announced(Option<u64>);

impl Announced {
    /// Takes in the length of the next piece, or the end: whether they keep to the number.
    fn holds(&mut self, piece: Option<usize>) -> bool {
        let Some(left) = &mut self.0 else {
            return true;
        };
        let bytes = piece.map(|bytes| bytes as u64);
        let holds = bytes.map_or(*left == 0, |bytes| bytes <= *left);
        *left = left.saturating_sub(bytes.unwrap_or(0));
        holds
    }
}

/// The headers that travel on, spelt as a Go server spells them.
pub(super) fn end_to_end(headers: &HeaderMap) -> Vec<(Cow<'static, str>, Bytes)> {
    let travels = |(name, _): &(&HeaderName, _)| {
        *name != header::CONTENT_LENGTH && !is_hop_header(name, headers)
    };
    let copied = |(name, value): (&HeaderName, &header::HeaderValue)| {
        (go_name(name), Bytes::copy_from_slice(value.as_bytes()))
    };
    headers.iter().filter(travels).map(copied).collect()
}

/// A name as Go's servers spell it: the library keeps names in lower case.
fn go_name(name: &HeaderName) -> Cow<'static, str> {
    match *name {
        header::CONTENT_TYPE => "Content-Type".into(),
        header::DATE => "Date".into(),
        header::CACHE_CONTROL => "Cache-Control".into(),
        header::VARY => "Vary".into(),
        _ => {
            let mut is_first = true;
            let spelt = |letter: char| {
                if std::mem::replace(&mut is_first, letter == '-') {
                    letter.to_ascii_uppercase()
                } else {
                    letter
                }
            };
            name.as_str().chars().map(spelt).collect::<String>().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_90_a_body_is_as_long_as_its_client_was_told_or_breaks_off() {
        let outcome = |announced: Option<u64>, pieces: &[usize]| {
            let mut announced = Announced(announced);
            let pieces = pieces.iter().copied().map(Some).chain([None]);
            pieces
                .map(|piece| announced.holds(piece))
                .collect::<Vec<_>>()
        };
        assert_eq!(outcome(Some(5), &[2, 3]), [true, true, true]);
        assert_eq!(outcome(Some(5), &[2, 4])[..2], [true, false]);
        assert_eq!(outcome(Some(5), &[2, 2]), [true, true, false]);
        assert!(!outcome(Some(0), &[1])[0]);
        assert_eq!(outcome(None, &[7, 9]), [true, true, true]);
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

    #[test]
    fn headers_of_the_connection_stay_here() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret"),
            ("x-secret", "1"),
            ("transfer-encoding", "chunked"),
            ("keep-alive", "timeout=5"),
            ("x-server-time", "1"),
        ] {
            let name = HeaderName::from_static(name);
            headers.insert(name, value.parse().unwrap());
        }
        let left: Vec<_> = headers
            .keys()
            .filter(|name| !is_hop_header(name, &headers))
            .collect();
        assert_eq!(left, ["x-server-time"]);
    }
}
