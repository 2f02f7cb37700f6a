//! WebSocket (RFC 6455), both sides, without extensions.
//!
//! [`ClientHandshake`] asks for a WebSocket and [`check_handshake`] checks such a request,
//! [`FrameReader`] takes messages off a buffer, [`write_text`] and its siblings write a server's
//! frames, [`frame::write_masked`] a client's.

pub mod frame;
mod handshake;
mod reader;

pub use self::frame::{write_close, write_ping, write_pong, write_text, write_text_head};
pub use self::handshake::{
    ClientHandshake, HandshakeError, UpgradeError, accept_key, check_handshake,
};
pub use self::reader::{Event, FrameReader, Step, WsLimits};

/// Why a connection cannot go on. Each has a close code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WsError {
    /// A frame breaks the protocol.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// The opcode of a frame is none of RFC 6455.
    #[error("protocol error: opcode {0} is unknown")]
    UnknownOpcode(u8),
    /// A text, or the reason of a close, is not UTF-8.
    #[error("a text is not UTF-8")]
    NotUtf8,
    /// A message is larger than allowed.
    #[error("a message is larger than {0} bytes")]
    TooLarge(usize),
    /// A message comes in more fragments than allowed.
    #[error("a message comes in more than {0} fragments")]
    TooManyFragments(usize),
}

impl WsError {
    /// The code of the close frame that the other end gets (RFC 6455, section 7.4.1).
    pub const fn close_code(self) -> u16 {
        match self {
            Self::Protocol(_) | Self::UnknownOpcode(_) => close_code::PROTOCOL,
            Self::NotUtf8 => close_code::NOT_UTF8,
            Self::TooLarge(_) => close_code::TOO_LARGE,
            Self::TooManyFragments(_) => close_code::POLICY,
        }
    }
}

/// Codes of close frames.
pub mod close_code {
    /// The connection is no longer needed.
    pub const NORMAL: u16 = 1000;
    /// The server shuts down.
    pub const GOING_AWAY: u16 = 1001;
    /// The protocol was broken.
    pub const PROTOCOL: u16 = 1002;
    /// A text was not UTF-8.
    pub const NOT_UTF8: u16 = 1007;
    /// A limit or a rule of the server was broken.
    pub const POLICY: u16 = 1008;
    /// A message was too large.
    pub const TOO_LARGE: u16 = 1009;
    /// The server is overloaded: connect again later.
    pub const TRY_AGAIN: u16 = 1013;
}
