//! How many broadcasts a second the node answers over HTTP and over WebSocket, clients on the
//! same machine.
//!
//! ```text
//! cargo run --release -p devnode --example flood -- [SECONDS] [CONNECTIONS]
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use devnode::{Config, DevNode, MempoolConfig};

/// Requests on the way on each WebSocket.
const WINDOW: usize = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let connections = arguments.next().map_or(Ok(16), |text| text.parse())?;
    let span = Duration::from_secs(seconds);
    let runtime = tokio::runtime::Runtime::new()?;
    for (name, flood) in [("http", over_http as Flood), ("websocket", over_websocket)] {
        let mempool = MempoolConfig {
            size: 1_000_000,
            cache_size: 1_000_000,
            ..MempoolConfig::default()
        };
        let config = Config {
            mempool,
            ..Config::default()
        };
        let (node, worker) = runtime.block_on(DevNode::bind(config))?;
        let worker = runtime.spawn(worker);
        let address = node.rpc_address();
        let start = Instant::now();
        let clients: Vec<_> = (0..connections)
            .map(|client| thread::spawn(move || flood(address, client, start + span)))
            .collect();
        let mut answers = 0;
        for client in clients {
            answers += client.join().map_err(|_| "a client panicked")??;
        }
        let rate = answers as f64 / start.elapsed().as_secs_f64();
        let snapshot = node.snapshot();
        writeln!(
            io::stdout(),
            "{name}: {rate:.0} broadcasts/s over {connections} connections; {} refused, {} committed up to height {}",
            snapshot.refused,
            snapshot.committed,
            snapshot.height
        )?;
        node.shutdown();
        runtime.block_on(worker)?;
    }
    Ok(())
}

type Flood = fn(SocketAddr, usize, Instant) -> io::Result<u64>;

fn body(client: usize, index: u64) -> String {
    let tx =
        base64_simd::STANDARD.encode_to_string(format!("{client}-{index}={}", "x".repeat(230)));
    format!(
        r#"{{"jsonrpc":"2.0","id":{index},"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
    )
}

fn over_http(address: SocketAddr, client: usize, until: Instant) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    let mut answers = 0;
    while Instant::now() < until {
        let body = body(client, answers);
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        // An answer is small and comes in one piece, with a closing brace as its last byte.
        let mut filled = 0;
        while filled == 0 || buffer[filled - 1] != b'}' {
            filled += stream.read(&mut buffer[filled..])?;
        }
        answers += 1;
    }
    Ok(answers)
}

fn over_websocket(address: SocketAddr, client: usize, until: Instant) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.write_all(
        b"GET /websocket HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    )?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let (mut sent, mut answers) = (0, 0);
    let mut out = Vec::new();
    let mut input = Vec::new();
    let mut buffer = [0; 65_536];
    while Instant::now() < until {
        out.clear();
        while sent - answers < WINDOW as u64 {
            frame(&mut out, body(client, sent).as_bytes());
            sent += 1;
        }
        stream.write_all(&out)?;
        let read = stream.read(&mut buffer)?;
        input.extend_from_slice(&buffer[..read]);
        answers += take_frames(&mut input);
    }
    Ok(answers)
}

/// A text frame with a mask of zero, which leaves the text as it is.
fn frame(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&[0x81, 0x80 | 126]);
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(text);
}

/// Takes complete frames off the front and counts them.
fn take_frames(input: &mut Vec<u8>) -> u64 {
    let (mut at, mut frames) = (0, 0);
    loop {
        let length = match input.get(at + 1) {
            Some(126) if input.len() >= at + 4 => {
                4 + usize::from(u16::from_be_bytes([input[at + 2], input[at + 3]]))
            }
            Some(short) if *short < 126 => 2 + usize::from(*short),
            _ => break,
        };
        if input.len() < at + length {
            break;
        }
        at += length;
        frames += 1;
    }
    input.drain(..at);
    frames
}
