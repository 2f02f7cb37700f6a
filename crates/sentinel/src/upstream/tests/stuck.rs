//! A real node whose application answers nothing: its health is still answered, and its reads are not.

use std::io::{BufReader, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testkit::{CometBft, CometOptions};
use wire::proto::{self, Fields, Value};

use super::reads::{body, get};
use super::{PATIENCE, Rig, client};
use crate::upstream::ReadRequest;

/// Serves an application that does nothing, over ABCI, until it is stuck; the address for `--proxy_app`.
fn application(is_stuck: &Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    let is_stuck = Arc::clone(is_stuck);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let is_stuck = Arc::clone(&is_stuck);
            // It ends with the node.
            thread::spawn(move || serve(stream, &is_stuck));
        }
    });
    address
}

/// Serves one of the node's connections (`proto/tendermint/abci/types.proto`, v0.38.17).
fn serve(mut stream: TcpStream, is_stuck: &AtomicBool) -> Result<()> {
    const ECHO: u32 = 1;
    const INFO: u32 = 3;
    const PROCESS_PROPOSAL: u32 = 17;
    let mut input = BufReader::new(stream.try_clone()?);
    loop {
        let mut message = vec![0; length(&mut input)?];
        input.read_exact(&mut message)?;
        while is_stuck.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
        let Some(Ok((number, Value::Bytes(call)))) = Fields::of(&message, "Request").next() else {
            return Ok(());
        };
        let mut answer = Vec::new();
        match number {
            ECHO => answer.extend_from_slice(call),
            INFO => proto::bytes(&mut answer, 1, b"of the first"),
            PROCESS_PROPOSAL => proto::number(&mut answer, 1, 1),
            _ => {}
        }
        // The number of an answer is that of its call and one; its field is of bytes (2).
        let (mut head, mut framed) = (Vec::new(), Vec::new());
        proto::varint(&mut head, u64::from(number + 1) << 3 | 2);
        proto::varint(&mut head, answer.len() as u64);
        proto::varint(&mut framed, (head.len() + answer.len()) as u64);
        framed.extend(head);
        framed.extend(answer);
        stream.write_all(&framed)?;
    }
}

fn length(input: &mut impl Read) -> Result<usize> {
    let (mut length, mut shift) = (0, 0);
    loop {
        let mut byte = [0];
        input.read_exact(&mut byte)?;
        length |= usize::from(byte[0] & 0x7f) << shift;
        shift += 7;
        if byte[0] < 0x80 {
            return Ok(length);
        }
    }
}

fn node(app: Option<String>) -> CometBft {
    let mut options = CometOptions {
        chain_id: Some("stuck".to_owned()),
        ..CometOptions::default()
    };
    options.app = app.unwrap_or(options.app);
    CometBft::start(options.set("consensus.timeout_commit", "500ms")).unwrap()
}

/// Whether a client's read is answered by the first node.
async fn is_of_first(rig: &Rig, last: u8) -> bool {
    let request = ReadRequest {
        method: Some("abci_info".into()),
        ..get("/abci_info")
    };
    let asking = rig.reads.forward(client(last), 0, request);
    let answer = tokio::time::timeout(PATIENCE, asking)
        .await
        .expect("in time");
    let text = body(answer.unwrap()).await.unwrap();
    String::from_utf8(text).unwrap().contains("of the first")
}

#[tokio::test]
#[ignore = "needs cometbft"]
async fn reads_leave_a_real_node_whose_application_is_stuck_and_come_back() {
    let is_stuck = Arc::new(AtomicBool::new(false));
    let app = application(&is_stuck);
    let start = move || (node(None), node(Some(app)));
    let (second, first) = tokio::task::spawn_blocking(start).await.unwrap();
    let mut rig = Rig::to(&[first.rpc_url(), second.rpc_url()]);
    rig.ready(0).await;
    while !rig.nodes.is_up(1) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // They read where they write.
    (2..12).for_each(|last| rig.reads.note_write(client(last)));
    assert!(is_of_first(&rig, 2).await);
    is_stuck.store(true, Ordering::SeqCst);
    for last in 2..12 {
        assert!(!is_of_first(&rig, last).await);
    }
    assert!(rig.nodes.is_up(0), "its health is answered");
    is_stuck.store(false, Ordering::SeqCst);
    // One that has read from the second node stays there: its chain is the longer one.
    for last in 20.. {
        rig.reads.note_write(client(last));
        if is_of_first(&rig, last).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    rig.stop().await;
}
