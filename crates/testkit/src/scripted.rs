//! A server that does what a test scripts, byte by byte, well or badly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use sha1::{Digest, Sha1};

/// A TCP server on a free port of the loop-back address that runs a script on every connection.
///
/// The script is a closure that reads and writes through [`ScriptedConnection`]; when it returns
/// the connection is closed. Each connection has a thread of its own. Dropping the server ends
/// every script: reads see the end, writes are ignored, [`ScriptedConnection::freeze`] returns.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    connections: AtomicUsize,
    sockets: Mutex<Vec<TcpStream>>,
    /// Locked around changes of the above, so that a frozen script cannot miss its release.
    frozen: Mutex<()>,
    release: Condvar,
}

impl ScriptedServer {
    /// Listens and runs `script` on every connection.
    ///
    /// # Panics
    /// When no port can be had.
    pub fn start(script: impl Fn(&mut ScriptedConnection) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener
            .local_addr()
            .expect("a bound listener has an address");
        let shared = Arc::new(Shared::default());
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, &shared, &Arc::new(script)))
        };
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://address`.
    pub fn http_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `ws://address/websocket`.
    pub fn ws_url(&self) -> String {
        format!("ws://{}/websocket", self.address)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        {
            let _guard = lock(&self.shared.frozen);
            self.shared.stopped.store(true, Ordering::Release);
            self.shared.release.notify_all();
        }
        // The acceptor sleeps in `accept`; one last connection wakes it.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept<F>(listener: &TcpListener, shared: &Arc<Shared>, script: &Arc<F>)
where
    F: Fn(&mut ScriptedConnection) + Send + Sync + 'static,
{
    let mut threads = Vec::new();
    for stream in listener.incoming().map_while(Result::ok) {
        if shared.stopped.load(Ordering::Acquire) {
            break;
        }
        let Ok(twin) = stream.try_clone() else {
            continue;
        };
        lock(&shared.sockets).push(twin);
        let number = {
            let _guard = lock(&shared.frozen);
            shared.release.notify_all();
            shared.connections.fetch_add(1, Ordering::AcqRel)
        };
        let (shared, script) = (Arc::clone(shared), Arc::clone(script));
        threads.push(thread::spawn(move || {
            let mut connection = ScriptedConnection::new(number, stream, shared);
            script(&mut connection);
            // The server's own copy of the socket would keep it open otherwise.
            connection.close();
        }));
    }
    for socket in lock(&shared.sockets).drain(..) {
        let _ = socket.shutdown(Shutdown::Both);
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server's side of one connection.
pub struct ScriptedConnection {
    number: usize,
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    shared: Arc<Shared>,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedRequest {
    /// Request line and headers, without the empty line.
    pub head: String,
    /// As many bytes as `Content-Length` has.
    pub body: Vec<u8>,
}

/// A WebSocket frame as it arrived, unmasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedFrame {
    /// 1 text, 2 binary, 8 close, 9 ping, 10 pong.
    pub opcode: u8,
    /// The masking key, zero when the frame was not masked.
    pub key: [u8; 4],
    /// The payload.
    pub payload: Vec<u8>,
}

impl ScriptedConnection {
    fn new(number: usize, stream: TcpStream, shared: Arc<Shared>) -> Self {
        let _ = stream.set_nodelay(true);
        let reader = BufReader::new(stream.try_clone().expect("a socket can be duplicated"));
        Self {
            number,
            stream,
            reader,
            shared,
        }
    }

    /// The how many-th connection of the server this is, from 0.
    pub const fn number(&self) -> usize {
        self.number
    }

    /// Reads one HTTP request; `None` at the end of the stream.
    pub fn read_request(&mut self) -> Option<ScriptedRequest> {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.trim_end().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let length = header(&head, "content-length").and_then(|value| value.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.reader.read_exact(&mut body).ok()?;
        Some(ScriptedRequest {
            head: head.trim_end().to_owned(),
            body,
        })
    }

    /// Sends bytes as they are; a peer that has gone is no error.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// Sends every byte as a segment of its own.
    pub fn send_bytewise(&mut self, bytes: impl AsRef<[u8]>) {
        for byte in bytes.as_ref() {
            self.send([*byte]);
            thread::yield_now();
        }
    }

    /// Answers one request with a status and a body; false at the end of the stream.
    pub fn answer_request(&mut self, status: u16, body: &str) -> bool {
        let found = self.read_request().is_some();
        if found {
            self.send(http_answer(status, body));
        }
        found
    }

    /// Reads the upgrade request and agrees; false when there is none.
    pub fn accept_websocket(&mut self) -> bool {
        let Some(request) = self.read_request() else {
            return false;
        };
        self.agree_to_websocket(&request)
    }

    /// Agrees to an upgrade request that was read already; false when it is none.
    pub fn agree_to_websocket(&mut self, request: &ScriptedRequest) -> bool {
        self.agree_and_send(request, &[])
    }

    /// The same, with further bytes in the same write.
    pub fn agree_and_send(&mut self, request: &ScriptedRequest, bytes: &[u8]) -> bool {
        let Some(key) = header(&request.head, "sec-websocket-key") else {
            return false;
        };
        let digest = Sha1::new()
            .chain_update(key)
            .chain_update(WEBSOCKET_GUID)
            .finalize();
        let accept = base64_simd::STANDARD.encode_to_string(digest);
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        self.send([head.as_bytes(), bytes].concat());
        true
    }

    /// Reads one frame; `None` at the end of the stream.
    pub fn read_frame(&mut self) -> Option<ScriptedFrame> {
        let [first, second] = self.read_bytes()?;
        let length = match second & 0x7f {
            126 => u64::from(u16::from_be_bytes(self.read_bytes()?)),
            127 => u64::from_be_bytes(self.read_bytes()?),
            short => u64::from(short),
        };
        let key = if second & 0x80 == 0 {
            [0; 4]
        } else {
            self.read_bytes()?
        };
        let mut payload = vec![0; usize::try_from(length).ok()?];
        self.reader.read_exact(&mut payload).ok()?;
        for (at, byte) in payload.iter_mut().enumerate() {
            *byte ^= key[at % 4];
        }
        Some(ScriptedFrame {
            opcode: first & 0x0f,
            key,
            payload,
        })
    }

    /// Sends one whole text frame.
    pub fn send_text(&mut self, payload: impl AsRef<[u8]>) {
        self.send(frame(FrameKind::Whole(1), payload.as_ref()));
    }

    /// Does nothing until the server is dropped: the node that hangs.
    pub fn freeze(&mut self) {
        self.sleep_while(|_| true);
    }

    /// Does nothing until the server has had so many connections (or is dropped).
    pub fn freeze_until_connections(&mut self, count: usize) {
        self.sleep_while(|shared| shared.connections.load(Ordering::Acquire) < count);
    }

    fn sleep_while(&self, condition: impl Fn(&Shared) -> bool) {
        let mut guard = lock(&self.shared.frozen);
        while !self.shared.stopped.load(Ordering::Acquire) && condition(&self.shared) {
            guard = self
                .shared
                .release
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes in both directions.
    pub fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Breaks the connection with a reset instead of closing it; later calls are no use.
    pub fn reset(&mut self) {
        // Dissolving the association is what makes the kernel send a reset although other copies
        // of the socket are open.
        let _ = rustix::net::connect_unspec(&self.stream);
    }

    fn read_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// How a frame stands in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A whole message or a control frame of this opcode.
    Whole(u8),
    /// The first fragment of a message of this opcode.
    First(u8),
    /// A fragment in the middle.
    Middle,
    /// The last fragment.
    Last,
}

/// An unmasked frame, as a server sends it.
pub fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let first = match kind {
        FrameKind::Whole(opcode) => 0x80 | opcode,
        FrameKind::First(opcode) => opcode,
        FrameKind::Middle => 0,
        FrameKind::Last => 0x80,
    };
    let mut bytes = vec![first];
    match payload.len() {
        short @ 0..=125 => bytes.push(short as u8),
        middle @ 126..=0xffff => {
            bytes.push(126);
            bytes.extend((middle as u16).to_be_bytes());
        }
        long => {
            bytes.push(127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend(payload);
    bytes
}

/// An HTTP answer with a length.
pub fn http_answer(status: u16, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// RFC 6455, section 1.3.
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
