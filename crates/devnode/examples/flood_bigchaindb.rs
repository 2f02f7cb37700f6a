//! How many CREATEs a second the node with BigchainDB on it finalises, everything checked, clients
//! on the same machine.
//!
//! The transactions are BEP-23's: asset null, metadata of one text, one signer, 765 bytes or three
//! less. They are signed before the clock starts; it stops when the last one is in a block.
//!
//! ```text
//! cargo run --release -p devnode --example flood_bigchaindb -- [COUNT] [CONNECTIONS] [serial|parallel]
//! ```

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bigchain::json::Object;
use bigchain::{CreateTemplate, KeyPair};
use devnode::{Config, DevNode, Validation};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(50_000), |text| text.parse())?;
    let connections: usize = arguments.next().map_or(Ok(32), |text| text.parse())?;
    let serial = arguments.next().is_some_and(|text| text == "serial");
    let runtime = tokio::runtime::Runtime::new()?;
    for (name, request) in [
        ("http api, sync", over_api as Request),
        ("tendermint rpc, sync", over_rpc),
    ] {
        let requests = prepared(count, connections, request)?;
        let mut config = Config::bigchaindb();
        config.mempool.size = count;
        config.mempool.cache_size = count;
        if serial {
            config.bigchaindb.validation = Validation::Serial;
        }
        let (node, worker) = runtime.block_on(DevNode::bind(config))?;
        let worker = runtime.spawn(worker);
        let address = match name {
            "http api, sync" => node.api_address().ok_or("no api")?,
            _ => node.rpc_address(),
        };
        let start = Instant::now();
        let clients: Vec<_> = requests
            .into_iter()
            .map(|requests| thread::spawn(move || flood(address, &requests)))
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        let answered = start.elapsed();
        while node.snapshot().committed < count as u64 && start.elapsed() < LONGEST {
            thread::sleep(Duration::from_millis(1));
        }
        let finalised = start.elapsed();
        let snapshot = node.snapshot();
        let rate = |span: Duration| count as f64 / span.as_secs_f64();
        writeln!(
            io::stdout(),
            "{name}: {:.0}/s answered, {:.0}/s finalised over {connections} connections; {} refused, {} committed up to height {}",
            rate(answered),
            rate(finalised),
            snapshot.refused,
            snapshot.committed,
            snapshot.height
        )?;
        node.shutdown();
        runtime.block_on(worker)?;
    }
    Ok(())
}

/// After this the node is given up.
const LONGEST: Duration = Duration::from_secs(120);

type Request = fn(&str) -> String;

/// The requests of each connection.
fn prepared(
    count: usize,
    connections: usize,
    request: Request,
) -> Result<Vec<Vec<String>>, bigchain::Error> {
    (0..connections)
        .map(|connection| {
            let mut seed = [7; 32];
            seed[..8].copy_from_slice(&(connection as u64).to_le_bytes());
            let template = CreateTemplate::new(KeyPair::from_seed(seed), None)?;
            let own = count / connections + usize::from(connection < count % connections);
            Ok((0..own)
                .map(|index| {
                    let text = format!("{connection:08x}-7dec-41d0-a765-{index:012x}");
                    let mut body = String::new();
                    template.sign(&Object::new().with("_", text), &mut body);
                    request(&body)
                })
                .collect())
        })
        .collect()
}

fn over_api(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /api/v1/transactions?mode=sync HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn over_rpc(body: &str) -> String {
    let tx = base64_simd::STANDARD.encode_to_string(body);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"broadcast_tx_sync","params":{{"tx":"{tx}"}}}}"#
    );
    let length = body.len();
    format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn flood(address: SocketAddr, requests: &[String]) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    for request in requests {
        stream.write_all(request.as_bytes())?;
        // An answer is small, in one piece, and ends with a closing brace and perhaps a newline.
        let mut filled = 0;
        while !buffer[..filled].trim_ascii_end().ends_with(b"}") {
            let read = stream.read(&mut buffer[filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
        }
        if !buffer.starts_with(b"HTTP/1.1 20") {
            let answer = String::from_utf8_lossy(&buffer[..filled]).into_owned();
            return Err(io::Error::other(answer));
        }
    }
    Ok(())
}
