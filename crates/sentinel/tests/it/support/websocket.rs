//! A blocking WebSocket client, bound to a chosen source address.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;
use wire::ws::{Event, FrameReader, Step, WsLimits, frame};

/// A client's WebSocket.
pub(crate) struct WebSocket {
    stream: TcpStream,
    /// What was read and not yet taken.
    buffer: Vec<u8>,
    frames: FrameReader,
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
            frames: FrameReader::of_server(WsLimits {
                message: usize::MAX,
                fragments: usize::MAX,
            }),
            closed: false,
        }
    }

    /// The connection, of which nothing but the handshake was read.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends one text.
    pub(crate) fn send(&mut self, text: &[u8]) {
        self.send_frame(frame::TEXT, text);
    }

    fn send_frame(&mut self, opcode: u8, payload: &[u8]) {
        const KEY: [u8; 4] = [7, 1, 9, 3];
        let mut bytes = Vec::with_capacity(payload.len() + 14);
        frame::write_masked(&mut bytes, opcode, KEY, payload.len(), |out| {
            out.extend_from_slice(payload);
        });
        // Who writes to a closed connection finds out when reading.
        let _ = self.stream.write_all(&bytes);
    }

    /// The next text, if one comes within this time. Pings are answered.
    pub(crate) fn receive(&mut self, within: Duration) -> Received {
        let deadline = Instant::now() + within;
        while !self.closed {
            let (mut taken, mut text, mut ping) = (0, None, None);
            if let Step::Event { used, event } = self.frames.next(&mut self.buffer).unwrap() {
                taken = used;
                match event {
                    Event::Text(payload) | Event::Binary(payload) => text = Some(payload.to_vec()),
                    Event::Ping(payload) => ping = Some(payload.to_vec()),
                    Event::Close { .. } => self.closed = true,
                    Event::Fragment | Event::Pong => {}
                }
            }
            self.buffer.drain(..taken);
            if let Some(payload) = ping {
                self.send_frame(frame::PONG, &payload);
            }
            if let Some(text) = text {
                return Received::Text(String::from_utf8(text).unwrap());
            }
            if taken == 0 {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Received::Nothing;
                }
                self.read(left);
            }
        }
        Received::Closed
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
}
