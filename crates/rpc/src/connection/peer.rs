//! Bitcoin's peer-to-peer protocol on a connection that sends transactions: the handshake, answers to pings, and what
//! the node rejects.

use std::net::SocketAddr;

use bitcoin::p2p::message::NetworkMessage;
use wire::p2p::Head;

use super::buffer::{InBuffer, OutBuffer};
use super::error::ConnectionError;
use super::types::Message;
use crate::peer::{Handshake, head, read, write};

/// Cuts a byte stream into messages.
#[derive(Debug)]
pub(super) struct PeerReader {
    magic: [u8; 4],
    handshake: Handshake,
    pub(super) pings: u64,
    pub(super) pings_skipped: u64,
}

impl PeerReader {
    /// A stream that begins with our version in `out`. The node announces nothing on it.
    pub(super) fn new(magic: [u8; 4], address: SocketAddr, out: &mut OutBuffer) -> Self {
        let version = write(magic, Handshake::version(address, false));
        out.append(|bytes| bytes.extend_from_slice(&version));
        Self {
            magic,
            handshake: Handshake::default(),
            pings: 0,
            pings_skipped: 0,
        }
    }

    /// Goes on with the handshake; whether it is done.
    pub(super) fn greet(
        &mut self,
        input: &mut InBuffer,
        out: &mut OutBuffer,
    ) -> Result<bool, ConnectionError> {
        while self.handshake.done().is_none() {
            let Some((bytes, _)) = self.next(input)? else {
                return Ok(false);
            };
            let message = read(&input.filled()[..bytes])?;
            input.consume(bytes);
            if let Some(reply) = self.handshake.take(message) {
                let reply = write(self.magic, reply);
                out.append(|bytes| bytes.extend_from_slice(&reply));
            }
        }
        Ok(true)
    }

    /// Why a node may have ended the connection during the handshake.
    pub(super) fn refused(&self) -> ConnectionError {
        ConnectionError::Handshake {
            reason: self.handshake.hint(),
        }
    }

    /// Hands over what the node rejects, and puts answers to its pings into `out`; what it says else is not for
    /// one who sends.
    pub(super) fn parse(
        &mut self,
        input: &mut InBuffer,
        out: &mut OutBuffer,
        on_message: &mut impl FnMut(Message<'_>),
    ) -> Result<u32, ConnectionError> {
        let mut messages = 0;
        while let Some((bytes, head)) = self.next(input)? {
            let message = &input.filled()[..bytes];
            match head.command() {
                b"reject" => {
                    on_message(Message::new(message, REJECT_STATUS));
                    messages += 1;
                }
                b"ping" => self.pong(message, out)?,
                _ => {}
            }
            input.consume(bytes);
        }
        Ok(messages)
    }

    fn pong(&mut self, message: &[u8], out: &mut OutBuffer) -> Result<(), ConnectionError> {
        if let NetworkMessage::Ping(nonce) = read(message)? {
            self.pings += 1;
            if out.pending().len() > MAX_PENDING_FOR_PONG {
                self.pings_skipped += 1;
            } else {
                let pong = write(self.magic, NetworkMessage::Pong(nonce));
                out.append(|bytes| bytes.extend_from_slice(&pong));
            }
        }
        Ok(())
    }

    /// The next message's bytes and head, once it is there.
    fn next(&self, input: &mut InBuffer) -> Result<Option<(usize, Head)>, ConnectionError> {
        let Some(head) = head(input.filled(), self.magic)? else {
            return Ok(None);
        };
        if input.filled().len() < head.bytes {
            input.want(head.bytes);
            return Ok(None);
        }
        Ok(Some((head.bytes, head)))
    }
}

/// As over WebSockets: there are no statuses.
const REJECT_STATUS: u16 = 200;
/// A node that floods pings and reads nothing must not grow the buffer beyond what the sender fills.
const MAX_PENDING_FOR_PONG: usize = 1 << 20;
