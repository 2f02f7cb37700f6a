//! A chain of one's own in `txgen`: a crate that implements the traits of `chain`, and one line.
//!
//! The toy's node takes a number in each POST and answers `ok NUMBER`. Without arguments the example starts one and
//! loads it for a second; with arguments it is `txgen` with one more chain:
//!
//! ```console
//! $ cargo run --example toy_chain
//! $ cargo run --example toy_chain -- flood --target toy --endpoints http://127.0.0.1:7000 --no-follow --count 100 --concurrency 4
//! ```

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use chain::{
    Asking, Chain, Facts, FollowWith, Followed, LoadOptions, Loader, NodeClient, Probe, Protocol,
    ReplyTo, Target, TxName, TxStream, Wanted, Workload, WorkloadError,
};
use measure::{Failure, Reply, TxHash};
use rpc::{Client, ClientError, ClientOptions, Endpoint, Follower, Mempool, Message};

/// The chain; this is what `txgen` lists.
#[derive(Debug)]
struct Toy;

impl Chain for Toy {
    fn name(&self) -> &'static str {
        "Toy"
    }

    fn target(&self) -> Option<&'static dyn Target> {
        Some(&ToyTarget)
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    fn workloads(&self) -> &'static [&'static str] {
        &["toy-numbers"]
    }

    fn workload(&self, _: &Wanted<'_>) -> Result<Arc<dyn Workload>, WorkloadError> {
        Ok(Arc::new(Numbers))
    }
}

/// The hot side: what is done for each transaction.
#[derive(Debug, Clone)]
struct ToyProtocol;

impl Protocol for ToyProtocol {
    fn encode(
        &self,
        index: u64,
        tx: &[u8],
        _: TxName,
        out: &mut Vec<u8>,
    ) -> Result<TxHash, WorkloadError> {
        out.extend_from_slice(tx);
        let mut name = [0; 32];
        name[..8].copy_from_slice(&index.to_be_bytes());
        Ok(name)
    }

    fn read(&self, message: &Message<'_>, replies: &mut impl FnMut(ReplyTo, Reply)) {
        let index = message.body.strip_prefix(b"ok ").and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            digits.trim().parse().ok()
        });
        match index {
            Some(index) => replies(ReplyTo::Index(index), Reply::Accepted),
            None => replies(ReplyTo::OldestRequest, Reply::Failed(Failure::Malformed)),
        }
    }
}

/// The transactions: each is the text of its index.
#[derive(Debug)]
struct Numbers;

impl Workload for Numbers {
    fn largest(&self) -> usize {
        20
    }

    fn open(&self) -> Result<Box<dyn TxStream>, WorkloadError> {
        Ok(Box::new(Self))
    }
}

impl TxStream for Numbers {
    fn write(&mut self, index: u64, out: &mut Vec<u8>) -> Result<TxName, WorkloadError> {
        out.extend_from_slice(index.to_string().as_bytes());
        Ok(TxName::Hash)
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("toy-numbers")
    }
}

/// The kind of node.
#[derive(Debug)]
struct ToyTarget;

static FACTS: Facts = Facts {
    most_connections: NonZeroU32::new(64).expect("not zero"),
    no_kvstore: Some("means nothing to a toy; use --workload toy-numbers"),
    ..Facts::new("toy", "toy-numbers")
};

impl Target for ToyTarget {
    fn facts(&self) -> &'static Facts {
        &FACTS
    }

    fn connect(
        &self,
        endpoint: &Endpoint,
        options: ClientOptions,
    ) -> Result<Arc<dyn NodeClient>, ClientError> {
        Ok(Arc::new(ToyNode(Client::with_options(endpoint, options)?)))
    }

    /// A toy has no blocks: a load needs --no-follow.
    fn follow(&self, _: &Probe, _: FollowWith<'_>) -> Result<Followed, ClientError> {
        let (_, events) = tokio::sync::mpsc::channel(1);
        Ok((Follower::new(events), Box::pin(async {})))
    }

    fn loader(&self, _: &LoadOptions) -> Arc<dyn Loader> {
        Arc::new(ToyProtocol)
    }
}

struct ToyNode(Client);

impl NodeClient for ToyNode {
    fn probe<'a>(&'a self, _: &'a LoadOptions) -> Asking<'a, anyhow::Result<Probe>> {
        Box::pin(async move {
            Ok(Probe {
                version: self.0.text("").await?,
                ..Probe::default()
            })
        })
    }

    fn pending<'a>(&'a self, _: &'a [String]) -> Asking<'a, Result<Option<Mempool>, ClientError>> {
        Box::pin(async { Ok(None) })
    }
}

/// A node on a thread of its own; where it listens.
fn start_node() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

/// Answers until the other side is gone.
fn serve(mut stream: TcpStream) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(digits) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = digits.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let answer = if body.is_empty() {
            "toy 1.0".to_owned()
        } else {
            format!("ok {}", String::from_utf8_lossy(&body))
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        stream.write_all((head + &answer).as_bytes()).ok()?;
    }
}

/// `txgen` with this chain in its table.
fn txgen(arguments: Vec<String>) -> ExitCode {
    // The one line.
    txgen::chains::add(&Toy);
    let arguments = arguments.into_iter().map(Into::into);
    match ops::command::parse(arguments) {
        Ok(cli) => ops::command::conclude("toy_chain", txgen::command::execute(cli)),
        Err(code) => code,
    }
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().collect();
    if arguments.len() == 1 {
        let Ok(address) = start_node() else {
            return ExitCode::FAILURE;
        };
        let load = format!(
            "constant --rate 500/s --duration 1s --target toy --no-follow --no-tui --endpoints http://{address}"
        );
        arguments.extend(load.split(' ').map(str::to_owned));
    }
    txgen(arguments)
}
