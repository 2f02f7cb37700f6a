//! A server that answers every request with the same bytes, and answers worth decoding.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Serves `body` as JSON to every HTTP request on a free port, for as long as the process lives.
///
/// One thread for each connection; requests must have their body in the same packet as their head,
/// as small ones have.
///
/// # Errors
/// When no port or thread is available.
pub fn serve(body: &[u8]) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    thread::Builder::new().spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer_all(stream, &answer));
        }
    })?;
    Ok(address)
}

fn answer_all(mut stream: TcpStream, answer: &[u8]) -> io::Result<()> {
    let mut request = [0; 4096];
    stream.set_nodelay(true)?;
    while stream.read(&mut request)? > 0 {
        stream.write_all(answer)?;
    }
    Ok(())
}

/// The answer to `block` of a block with these transactions in base64, in the shape of CometBFT 0.38.
#[must_use]
pub fn block_answer(txs: &[String]) -> String {
    let hash = "0".repeat(64);
    let address = "0".repeat(40);
    let id = format!(r#"{{"hash":"{hash}","parts":{{"total":1,"hash":"{hash}"}}}}"#);
    let txs = txs.join("\",\"");
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"block_id":{id},"block":{{"header":{{"version":{{"block":"11","app":"1"}},"chain_id":"bench","height":"7","time":"2026-11-21T02:38:17.399835359Z","last_block_id":{id},"last_commit_hash":"{hash}","data_hash":"{hash}","validators_hash":"{hash}","next_validators_hash":"{hash}","consensus_hash":"{hash}","app_hash":"{hash}","last_results_hash":"{hash}","evidence_hash":"{hash}","proposer_address":"{address}"}},"data":{{"txs":["{txs}"]}},"evidence":{{"evidence":[]}},"last_commit":{{"height":"6","round":0,"block_id":{id},"signatures":[]}}}}}}}}"#
    )
}
