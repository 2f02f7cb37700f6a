//! An asset is made, changes hands, and is looked up again, on the built-in BigchainDB node.
//!
//! `cargo run --example bigchaindb_transfer`
//!
//! Alice makes a bicycle of ten shares and gives Bob four of them; both transactions come in over
//! the HTTP API, and their commits are read from the event stream. Then everyone can check what the
//! node says: the fetched text is verified again from its bytes, the unspent outputs add up to ten
//! shares, and a second spend of what Alice gave away is refused.

// A program that shows something prints it.
#![allow(clippy::print_stdout)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Context as _, Result, ensure};
use bigchain::json::Object;
use bigchain::{Create, KeyPair, MemoryLedger, Output, PublicKey, Transaction, Transfer};
use chain_bigchaindb::fixture::{API, BigchaindbKind, EVENTS};
use devnode::{Blueprint, Config, DevNode};
use futures_util::StreamExt as _;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<()> {
    let config = Config {
        block_interval: std::time::Duration::from_millis(200),
        ..Config::default()
    };
    let kind = &BigchaindbKind;
    let (node, worker) = DevNode::bind(Blueprint { kind, config }).await?;
    let worker = tokio::spawn(worker);
    let api = node.address(API).context("the node has no HTTP API")?;
    let events = node.address(EVENTS).context("the node has no events")?;
    let stream = format!("ws://{events}/api/v1/streams/valid_transactions");
    let (mut events, _) = tokio_tungstenite::connect_async(&stream).await?;
    println!("node       http://{api}, {stream}");

    let (alice, bob) = (KeyPair::from_seed([1; 32]), KeyPair::from_seed([2; 32]));
    let bicycle = Create::new()
        .asset(Object::new().with("bicycle", Object::new().with("serial", "abcd1234")))
        .metadata(Object::new().with("planet", "earth"))
        .signer(alice.public())
        .output(Output::to(&[alice.public()], 10)?)
        .sign(&[&alice])?;
    let gift = Transfer::of(&bicycle)
        .spend(&bicycle, 0)
        .output(Output::to(&[bob.public()], 4)?)
        .output(Output::to(&[alice.public()], 6)?)
        .sign(&[&alice])?;

    let mut ledger = MemoryLedger::default();
    for (name, transaction) in [("create", &bicycle), ("transfer", &gift)] {
        let (status, answer) = post(api, transaction).await?;
        ensure!(status == 202, "the node refuses the {name}: {answer}");
        let event = events.next().await.context("the event stream ended")??;
        let event: Value = serde_json::from_str(event.to_text()?)?;
        println!(
            "{name:<10} {} in block {}",
            transaction.id(),
            event["height"]
        );

        // What the node hands out is believed as little as what comes in.
        let path = format!("/api/v1/transactions/{}", transaction.id());
        let (_, text) = get(api, &path).await?;
        let fetched = Transaction::from_text(text.as_bytes())?;
        fetched.validate(&ledger)?;
        ensure!(ledger.apply(&fetched), "the ledger is full");
        println!("{:<10} fetched again, every check passed", "verify");
    }

    for (name, key) in [("alice", alice.public()), ("bob", bob.public())] {
        println!("{name:<10} has {} shares", shares(api, key).await?);
    }

    let rival = Transfer::of(&bicycle)
        .spend(&bicycle, 0)
        .output(Output::to(&[alice.public()], 10)?)
        .sign(&[&alice])?;
    let (status, answer) = post(api, &rival).await?;
    ensure!(status == 400, "a double spend was taken");
    println!("rival      {answer}");

    node.shutdown();
    worker.await?;
    Ok(())
}

/// The shares in a key's unspent outputs.
async fn shares(api: SocketAddr, key: PublicKey) -> Result<u64> {
    let (_, text) = get(
        api,
        &format!("/api/v1/outputs?public_key={key}&spent=false"),
    )
    .await?;
    let outputs: Vec<Value> = serde_json::from_str(&text)?;
    let mut sum = 0;
    for output in outputs {
        let id = output["transaction_id"].as_str().context("no id")?;
        let (_, text) = get(api, &format!("/api/v1/transactions/{id}")).await?;
        let transaction = Transaction::from_text(text.as_bytes())?;
        let index = usize::try_from(output["output_index"].as_u64().context("no index")?)?;
        sum += transaction
            .outputs()
            .get(index)
            .context("no such output")?
            .amount;
    }
    Ok(sum)
}

async fn post(api: SocketAddr, transaction: &Transaction) -> Result<(u16, String)> {
    let text = transaction.text();
    let head = "POST /api/v1/transactions?mode=sync HTTP/1.0\r\nContent-Type: application/json";
    ask(
        api,
        format!("{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len()),
    )
    .await
}

async fn get(api: SocketAddr, path: &str) -> Result<(u16, String)> {
    ask(api, format!("GET {path} HTTP/1.0\r\n\r\n")).await
}

/// One request over a connection of its own: status and body. HTTP/1.0 closes after the answer, so
/// this is all the HTTP that an example needs.
async fn ask(api: SocketAddr, request: String) -> Result<(u16, String)> {
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(api)?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    });
    let answer = answer.await??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.trim_end().to_owned()))
}
