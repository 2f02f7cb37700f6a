//! The loops of BEP-10 and BEP-23, for `benches/peers/bigchaindb`: goes round for some seconds on some
//! threads and prints how often, the time it took, and the processor time.
//!
//! `loops LOOP FILE SECONDS THREADS`; FILE is the text of a fulfillment or of a CREATE.

#[path = "../benches/bigchain/route.rs"]
mod route;

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use bigchain::json::{Object, parse};
use bigchain::schema::accepts;
use bigchain::{CreateTemplate, Fulfillment, KeyPair, MemoryLedger, SignatureBatch, Transaction};
use ed25519_dalek::{Signer, SigningKey};
use route::JsonSchema;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, file, seconds, threads] = &arguments[..] else {
        return Err("usage: loops LOOP FILE SECONDS THREADS".into());
    };
    let text = std::fs::read_to_string(file)?;
    let span = Duration::from_secs_f64(seconds.parse()?);
    let threads: u64 = threads.parse()?;
    let rounds: Vec<Round> = (0..threads)
        .map(|thread| round(name, &text, thread))
        .collect::<Result<_>>()?;
    let (start, before) = (Instant::now(), processor_seconds());
    let totals: Option<Vec<u64>> = std::thread::scope(|scope| {
        let running: Vec<_> = rounds
            .into_iter()
            .map(|round| scope.spawn(move || go_round(round, start, span)))
            .collect();
        running.into_iter().map(|run| run.join().ok()).collect()
    });
    let total: u64 = totals.ok_or("a round failed")?.iter().sum();
    let elapsed = start.elapsed().as_secs_f64();
    let worked = processor_seconds() - before;
    writeln!(std::io::stdout(), "{total} {elapsed} {worked}")?;
    Ok(())
}

/// Processor time of this process: what a busy machine leaves comparable.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// One round of a loop, and how many times it counts.
type Round = (Box<dyn FnMut() -> bool + Send>, u64);

fn go_round((mut round, weight): Round, start: Instant, span: Duration) -> u64 {
    let mut rounds = 0;
    while start.elapsed() < span {
        for _ in 0..ROUNDS_PER_LOOK.div_ceil(weight) {
            assert!(round(), "every round succeeds");
            rounds += weight;
        }
    }
    rounds
}

fn round(name: &str, text: &str, thread: u64) -> Result<Round> {
    let text = text.to_owned();
    let round: Box<dyn FnMut() -> bool + Send> = match name {
        "fulfillment" => Box::new(move || {
            Fulfillment::from_uri(black_box(&text)).is_ok_and(|read| read.to_uri() == text)
        }),
        "schema-typed" => {
            Box::new(move || parse(black_box(text.as_bytes())).is_ok_and(|body| accepts(&body)))
        }
        "schema-jsonschema" => {
            let schema = JsonSchema::new();
            Box::new(move || {
                serde_json::from_str(black_box(&text)).is_ok_and(|body| schema.accepts(&body))
            })
        }
        "sign-raw" => {
            let key = SigningKey::from_bytes(&[1; 32]);
            Box::new(move || {
                black_box(key.sign(black_box(&[7; 32])));
                true
            })
        }
        "sign-create" => {
            let template = CreateTemplate::new(pair(1), None)?;
            let (mut index, mut text) = (thread << 32, String::with_capacity(1024));
            Box::new(move || {
                index += 1;
                text.clear();
                black_box(template.sign(&metadata(index), &mut text));
                text.len() == 765
            })
        }
        "validate" => {
            let text = create(1)?;
            let ledger = MemoryLedger::default();
            Box::new(move || {
                Transaction::from_text(black_box(text.as_bytes()))
                    .is_ok_and(|read| read.validate(&ledger).is_ok())
            })
        }
        "block-single" => {
            let block = block()?;
            let check = move || block.iter().all(|tx| tx.check_signatures(&[]).is_ok());
            return Ok((Box::new(check), BLOCK));
        }
        "block-batch" => {
            let block = block()?;
            let check = move || {
                let mut batch = SignatureBatch::new();
                for transaction in &block {
                    batch.push(transaction, &[]);
                }
                batch.verify().iter().all(std::result::Result::is_ok)
            };
            return Ok((Box::new(check), BLOCK));
        }
        _ => return Err(format!("there is no loop {name}").into()),
    };
    Ok((round, 1))
}

fn block() -> Result<Vec<Transaction>> {
    (0..BLOCK)
        .map(|seed| Ok(Transaction::from_text(create(seed)?.as_bytes())?))
        .collect()
}

fn create(seed: u64) -> Result<String> {
    let mut text = String::new();
    CreateTemplate::new(pair(seed), None)?.sign(&metadata(seed), &mut text);
    Ok(text)
}

fn pair(seed: u64) -> KeyPair {
    let mut bytes = [1; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    KeyPair::from_seed(bytes)
}

fn metadata(index: u64) -> Object {
    Object::new().with("_", format!("{index:012x}-41d0-a765-00a0c91e6bf67"))
}

const BLOCK: u64 = 512;
const ROUNDS_PER_LOOK: u64 = 100;
