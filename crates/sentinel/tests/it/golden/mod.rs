//! The same requests to a real node directly and through the proxy: answers equal byte for byte,
//! but for what [`intended`] names. Cases 37 to 41 of `docs/attacks.md`.

mod requests;

use std::net::SocketAddr;
use std::time::Duration;

use sentinel::config::{AsyncAck, Config};
use testkit::{CometBft, CometOptions, RawAnswer, exchange};

use crate::corpus::{self, Conversation, Request};
use crate::support::websocket::{Received, WebSocket};
use crate::support::{Node, Proxy};

/// A difference that is meant to be.
struct Intended {
    /// What it is, and why; `docs/sentinel.md` tells it to operators.
    why: &'static str,
    /// Whether a difference is this one: the direct answer and the one through the proxy.
    is: fn(&str, &str) -> bool,
}

/// Every difference that is meant to be. With `async_ack = "buffered"`, the default, there is one
/// more: the node's refusal of an asynchronous broadcast comes after its acknowledgement.
const INTENDED: &[Intended] = &[
    Intended {
        why: "commit: the node tells the gas of a check with a commit only, and sentinel asks for a sync",
        is: |direct, through| {
            direct.replacen(r#""gas_wanted":"1""#, r#""gas_wanted":"0""#, 1) == through
        },
    },
    Intended {
        why: "doubt: a broadcast on an odd path, or with a body beside its target, is refused whatever the node does with it",
        is: |_, through| {
            refused(through, "400", "parse") && through.contains("the transaction cannot be read")
        },
    },
    Intended {
        why: "request line: what is no HTTP is refused here, in JSON",
        is: |direct, through| {
            direct.contains("text/plain")
                && direct.ends_with("400 Bad Request")
                && refused(through, "400", "parse")
        },
    },
    Intended {
        why: "body: more than the node takes is refused before it is read",
        is: |direct, through| {
            direct.contains("request body too large") && refused(through, "413", "body")
        },
    },
    Intended {
        why: "method: unsafe methods are refused",
        is: |_, through| refused(through, "403", "method"),
    },
    Intended {
        why: "parameters: what is asked over a WebSocket goes to the node over HTTP, which words them so",
        is: |direct, through| {
            let over_http = direct
                .replace(
                    r#""code":-32603,"message":"Internal error""#,
                    WRONG_PARAMETERS,
                )
                .replace("WSJSONRPC: ", "");
            let is_panic = direct.contains("WSJSONRPC: reflect");
            over_http == through || is_panic && through.contains("too few input arguments")
        },
    },
    Intended {
        why: "query: the node is asked without needless spaces, so it counts from elsewhere",
        is: |direct, through| {
            let fault = |text: &str| {
                let (said, rest) = text.split_once("failed to parse query: ")?;
                let is_place = |letter: char| letter.is_ascii_digit();
                Some((said.to_owned(), rest.replace(is_place, "")))
            };
            fault(direct).is_some() && fault(direct) == fault(through)
        },
    },
    Intended {
        why: "unsubscribe: a query without a subscription is not parsed",
        is: |direct, through| {
            direct.contains("failed to parse query") && through.contains("subscription not found")
        },
    },
    Intended {
        why: "depth: JSON deeper than 64 levels is refused",
        is: |_, through| refused(through, "400", "parse") && through.contains("deep"),
    },
    Intended {
        why: "target: one longer than 16 KiB is refused",
        is: |_, through| refused(through, "414", "body"),
    },
    Intended {
        why: "words: why a message is no request is told in words of our own",
        is: |direct, through| {
            let head = |text: &str| {
                Some(
                    text.split_once("error unmarshaling request: ")?
                        .0
                        .to_owned(),
                )
            };
            head(direct).is_some() && head(direct) == head(through)
        },
    },
];

const WRONG_PARAMETERS: &str = r#""code":-32602,"message":"Invalid params""#;

/// Whether an answer is a refusal with this status and reason.
fn refused(answer: &str, status: &str, reason: &str) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
        && answer.contains(&format!("\n  X-Sentinel-Reason: {reason}\n"))
}

/// Headers of one hop, and values of clocks. That a date is there is compared.
const HOP_HEADERS: &[&str] = &[
    "Connection",
    "Keep-Alive",
    "Content-Length",
    "Transfer-Encoding",
];
const CLOCKS: &[&str] = &["Date", "X-Server-Time"];

/// A node whose chain rests while nobody writes, and a proxy in front of it.
struct Pair {
    node: CometBft,
    proxy: Proxy,
}

impl Pair {
    fn start() -> Self {
        let node = start_node();
        let proxy = Proxy::with(&node.rpc_url(), |config: &mut Config| {
            // More requests at once than a client may send.
            config.reads.rate_per_client = pacing::Rate::per_second(100_000).unwrap();
            // The node's own answer is what is compared.
            config.fair.async_ack = AsyncAck::Forwarded;
        });
        Self { node, proxy }
    }

    /// Waits until the chain has taken in everything and rests.
    fn rest(&self) {
        let settled = |last: &mut Option<u64>| {
            let height = self.node.height();
            let empty = self.node.http().get("/num_unconfirmed_txs").unwrap();
            let is_same = height.is_some() && height == *last;
            *last = height;
            is_same && empty.text().contains(r#""n_txs":"0""#)
        };
        let (mut last, mut still) = (None, 0);
        for _ in 0..600 {
            still = if settled(&mut last) { still + 1 } else { 0 };
            if still == 8 {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the chain does not come to rest");
    }
}

fn start_node() -> CometBft {
    let options = CometOptions::default()
        .set("consensus.create_empty_blocks", "false")
        .set("consensus.timeout_commit", "50ms")
        .set("moniker", "twin");
    CometBft::start(options).unwrap()
}

/// What was found, and which intended differences were met.
#[derive(Default)]
struct Findings {
    faults: Vec<String>,
    met: Vec<bool>,
}

impl Findings {
    fn new() -> Self {
        Self {
            faults: Vec::new(),
            met: vec![false; INTENDED.len()],
        }
    }

    fn compare(&mut self, name: &str, direct: &str, through: &str) {
        if direct == through {
            return;
        }
        match INTENDED.iter().position(|one| (one.is)(direct, through)) {
            Some(index) => self.met[index] = true,
            None => self
                .faults
                .push(format!("{name}\n  direct  {direct}\n  through {through}")),
        }
    }

    /// No difference but intended ones, of which these begin the list's reasons and were met.
    #[track_caller]
    fn report(&self, met: &[&str]) {
        assert!(
            self.faults.is_empty(),
            "{} differences:\n{}",
            self.faults.len(),
            self.faults.join("\n")
        );
        let were: Vec<&str> = INTENDED
            .iter()
            .zip(&self.met)
            .filter(|(_, met)| **met)
            .map(|(one, _)| one.why.split(':').next().unwrap())
            .collect();
        assert_eq!(were, met);
    }
}

fn bytes(request: &Request) -> Vec<u8> {
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: node.test\r\n",
        request.method, request.path
    );
    if !request
        .headers
        .iter()
        .any(|(name, _)| *name == "Connection")
    {
        head.push_str("Connection: close\r\n");
    }
    if request.method != "GET" || !request.body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", request.body.len()));
    }
    for (name, value) in &request.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(request.body.as_bytes());
    bytes
}

fn ask(address: SocketAddr, request: &Request) -> String {
    let patience = Duration::from_secs(20);
    text(exchange(address, &bytes(request), patience).unwrap())
}

/// The whole answer as text, without what belongs to the hop.
fn text(answer: RawAnswer) -> String {
    let mut text = answer.line;
    for (name, value) in &answer.headers {
        if HOP_HEADERS.contains(&name.as_str()) {
            continue;
        }
        let value = if CLOCKS.contains(&name.as_str()) {
            "…"
        } else {
            value
        };
        text.push_str(&format!("\n  {name}: {value}"));
    }
    text.push_str("\n  ");
    text.push_str(&String::from_utf8_lossy(&answer.body));
    text
}

/// Heights depend on what got into one block.
fn without_heights(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(r#""height":""#) {
        out.push_str(before);
        out.push_str(r#""height":""#);
        rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out.push_str(rest);
    out
}

/// Asks the same node both ways; what changes by itself is asked again.
fn compare_reads(pair: &Pair, requests: &[Request], findings: &mut Findings) {
    for request in requests {
        for attempt in 0..5 {
            let direct = ask(pair.node.address(), request);
            let through = ask(pair.proxy.address, request);
            let again = ask(pair.node.address(), request);
            if direct == again || attempt == 4 {
                findings.compare(&request.name(), &direct, &through);
                break;
            }
        }
    }
}

/// Plays one conversation: the answers to each message, in its turn. With `counts`, as many are
/// awaited as came elsewhere; a last question shows that no more come.
fn play(
    address: SocketAddr,
    conversation: &Conversation,
    counts: Option<&[usize]>,
) -> Vec<Vec<String>> {
    let mut socket = WebSocket::connect(address);
    let mut answers = Vec::new();
    for (index, message) in conversation.messages.iter().enumerate() {
        socket.send(message.as_bytes());
        let mut came = Vec::new();
        if let Some(counts) = counts {
            while came.len() < counts[index] {
                came.push(next(&mut socket));
            }
        }
        let mark = format!("mark {index}");
        socket.send(format!(r#"{{"id":"{mark}","method":"health"}}"#).as_bytes());
        loop {
            let text = next(&mut socket);
            if text.contains(&mark) || text == "closed" {
                break;
            }
            came.push(text);
        }
        answers.push(came);
    }
    answers
}

fn next(socket: &mut WebSocket) -> String {
    match socket.receive(Duration::from_secs(30)) {
        Received::Text(text) => text,
        Received::Nothing => "nothing".to_owned(),
        Received::Closed => "closed".to_owned(),
    }
}

fn converse(direct: SocketAddr, through: SocketAddr, talk: &Conversation, findings: &mut Findings) {
    let direct = play(direct, talk, None);
    let counts: Vec<usize> = direct.iter().map(Vec::len).collect();
    let through = play(through, talk, Some(&counts));
    for ((message, direct), through) in talk.messages.iter().zip(direct).zip(through) {
        let name = format!("websocket, {}: {message}", talk.name);
        findings.compare(
            &name,
            &without_heights(&direct.join("\n")),
            &without_heights(&through.join("\n")),
        );
    }
}

#[test]
#[ignore = "needs cometbft"]
fn reads_and_errors_are_the_nodes_own() {
    let pair = Pair::start();
    let mut findings = Findings::new();
    pair.rest();
    compare_reads(&pair, &corpus::before_any_transaction(), &mut findings);
    for request in corpus::transactions() {
        ask(pair.proxy.address, &request);
    }
    pair.rest();
    compare_reads(&pair, &corpus::queries(), &mut findings);
    for talk in corpus::conversations().iter().take(2) {
        converse(pair.node.address(), pair.proxy.address, talk, &mut findings);
    }
    compare_reads(&pair, &requests::refused(), &mut findings);
    findings.report(&[
        "request line",
        "body",
        "method",
        "parameters",
        "query",
        "unsubscribe",
        "depth",
        "target",
        "words",
    ]);
}

/// What is asked over a WebSocket is answered as on a WebSocket of the node's.
#[test]
fn ws_97_messages_are_answered_as_by_the_built_in_node() {
    let node = Node::with(|config| config.block_interval = Duration::from_hours(1));
    let proxy = Proxy::start(&node.url());
    let mut findings = Findings::new();
    let known = r#"{"id":0,"method":"broadcast_tx_sync","params":{"tx":"YT0x"}}"#;
    let mut socket = WebSocket::connect(node.node.rpc_address());
    // The node makes its first block as soon as it runs, and the next in an hour.
    let status = r#"{"id":0,"method":"status"}"#;
    while socket.ask(status).contains(r#""latest_block_height":"0""#) {}
    socket.ask(known);
    for mut talk in corpus::conversations().into_iter().take(2) {
        // The built-in node words a parameter that it cannot read in its own way; the proxy answers as CometBFT does
        // (`reads_and_errors_are_the_nodes_own`).
        talk.messages.retain(|message| {
            !message.contains(r#""query":5"#) && !message.ends_with(r#""method":"subscribe"}"#)
        });
        converse(node.node.rpc_address(), proxy.address, &talk, &mut findings);
    }
    findings.report(&["unsubscribe"]);
}

#[test]
#[ignore = "needs cometbft"]
fn broadcasts_are_answered_as_by_the_node() {
    let (plain, pair) = (start_node(), Pair::start());
    let mut findings = Findings::new();
    for request in corpus::transactions().iter().chain(&requests::broadcasts()) {
        let direct = without_heights(&ask(plain.address(), request));
        let through = without_heights(&ask(pair.proxy.address, request));
        findings.compare(&request.name(), &direct, &through);
    }
    let talk = requests::conversation();
    converse(plain.address(), pair.proxy.address, &talk, &mut findings);
    findings.report(&["commit", "doubt", "body", "parameters", "words"]);
}

#[test]
#[ignore = "needs cometbft"]
fn events_are_the_nodes_own() {
    let pair = Pair::start();
    pair.rest();
    let mut direct = WebSocket::connect(pair.node.address());
    let mut through = WebSocket::connect(pair.proxy.address);
    let messages: Vec<String> = corpus::conversations()
        .into_iter()
        .skip(2)
        .flat_map(|talk| talk.messages)
        .filter(|message| !message.contains("broadcast"))
        .take(5)
        .collect();
    for message in &messages {
        assert_eq!(through.ask(message), direct.ask(message), "{message}");
    }
    let tx = requests::base64("ws1=1");
    let answer = pair
        .proxy
        .http()
        .post(
            "/",
            format!(r#"{{"id":1,"method":"broadcast_tx_commit","params":{{"tx":"{tx}"}}}}"#)
                .as_bytes(),
        )
        .unwrap();
    assert!(answer.text().contains("\"height\""), "{}", answer.text());
    // The block, the one that proves it, and the transaction: as many events on both sides.
    let events = |socket: &mut WebSocket| {
        let mut events = Vec::new();
        while let Received::Text(text) = socket.receive(Duration::from_secs(2)) {
            // The order of the members that tell an event's attributes is the node's whim.
            let event: serde_json::Value = serde_json::from_str(&text).unwrap();
            events.push(event);
        }
        events.sort_by_key(|event| event["result"].to_string());
        events
    };
    let direct = events(&mut direct);
    assert!(direct.len() >= 4, "{direct:?}");
    assert_eq!(events(&mut through), direct);
}
