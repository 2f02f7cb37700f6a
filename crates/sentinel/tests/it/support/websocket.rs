//! A blocking WebSocket client, bound to a chosen source address.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;
use wire::ws::frame;

/// A client's WebSocket.
pub(crate) struct WebSocket {
    stream: TcpStream,
    /// What was read and not yet taken.
    buffer: Vec<u8>,
    /// Fragments of a message that has begun.
    begun: Vec<u8>,
    closed: bool,
}

/// What came, or did not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Text(String),
    /// Nothing in the given time.
    Nothing,
    /// The other side has closed the connection.
    Closed,
}

/// Connects to `to` from the address `from`.
pub(crate) fn connect_from(from: IpAddr, to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stream = runtime.block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from, 0)).unwrap();
        socket.connect(to).await.unwrap()
    });
    let stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

impl WebSocket {
    pub(crate) fn connect(to: SocketAddr) -> Self {
        Self::connect_from(IpAddr::from([127, 0, 0, 1]), to)
    }

    pub(crate) fn connect_from(from: IpAddr, to: SocketAddr) -> Self {
        let mut stream = connect_from(from, to);
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let request = "GET /websocket HTTP/1.1\r\nHost: node.test\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        Self {
            stream,
            buffer: Vec::new(),
            begun: Vec::new(),
            closed: false,
        }
    }

    /// Sends one text.
    pub(crate) fn send(&mut self, text: &[u8]) {
        self.send_frame(frame::TEXT, text);
    }

    fn send_frame(&mut self, opcode: u8, payload: &[u8]) {
        const KEY: [u8; 4] = [7, 1, 9, 3];
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        frame::write_head(&mut bytes, opcode, payload.len(), Some(KEY));
        let start = bytes.len();
        bytes.extend_from_slice(payload);
        frame::mask(&mut bytes[start..], KEY);
        // Who writes to a closed connection finds out when reading.
        let _ = self.stream.write_all(&bytes);
    }

    /// The next text, if one comes within this time. Pings are answered.
    pub(crate) fn receive(&mut self, within: Duration) -> Received {
        let deadline = Instant::now() + within;
        loop {
            while let Some((opcode, is_last, payload)) = self.take_frame() {
                match opcode {
                    frame::PING => self.send_frame(frame::PONG, &payload),
                    frame::PONG => {}
                    frame::CLOSE => self.closed = true,
                    _ => {
                        self.begun.extend_from_slice(&payload);
                        if is_last {
                            let text = std::mem::take(&mut self.begun);
                            return Received::Text(String::from_utf8(text).unwrap());
                        }
                    }
                }
            }
            if self.closed {
                return Received::Closed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Received::Nothing;
            }
            self.read(left);
        }
    }

    /// The next text; panics if none comes.
    #[track_caller]
    pub(crate) fn text(&mut self) -> String {
        match self.receive(Duration::from_secs(60)) {
            Received::Text(text) => text,
            other => panic!("a text was awaited: {other:?}"),
        }
    }

    /// Sends one text and takes the next that comes.
    #[track_caller]
    pub(crate) fn ask(&mut self, text: &str) -> String {
        self.send(text.as_bytes());
        self.text()
    }

    fn read(&mut self, within: Duration) {
        let within = within.max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(within)).unwrap();
        let mut chunk = [0; 16_384];
        match self.stream.read(&mut chunk) {
            Ok(0) => self.closed = true,
            Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => self.closed = true,
        }
    }

    /// Opcode, whether it is the last of its message, and payload of the next whole frame.
    fn take_frame(&mut self) -> Option<(u8, bool, Vec<u8>)> {
        let (first, second) = (*self.buffer.first()?, *self.buffer.get(1)?);
        assert_eq!(second & frame::MASKED, 0, "servers do not mask");
        let (start, len) = match second {
            126 => (4, u64::from(u16::from_be_bytes(self.bytes(2)?))),
            127 => (10, u64::from_be_bytes(self.bytes(2)?)),
            short => (2, u64::from(short)),
        };
        let end = start + usize::try_from(len).unwrap();
        let payload = self.buffer.get(start..end)?.to_vec();
        self.buffer.drain(..end);
        Some((first & frame::OPCODE, first & frame::FIN != 0, payload))
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.buffer.get(at..at + N)?.try_into().ok()
    }
}
