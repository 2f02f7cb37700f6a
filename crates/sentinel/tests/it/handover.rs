//! A new process takes over from one that serves, under requests that go on all the time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use rpc::BroadcastMethod;
use rustix::process::Signal;
use testkit::{Http, free_port};

use crate::command_line::place;
use crate::doors::local;
use crate::reload::addresses;
use crate::support::load::Progress;
use crate::support::websocket::WebSocket;
use crate::support::{Node, broadcast};

/// One request after the other: over a connection as long as it is kept, as HTTP clients have it, and then over a new one.
/// How many there were.
fn keep_asking(client: u64, (door, to): (&str, SocketAddr), progress: &Progress) -> u64 {
    let mut connection: Option<TcpStream> = None;
    let mut asked = 0;
    while !progress.stop.load(std::sync::atomic::Ordering::Relaxed) {
        let stream = connection.get_or_insert_with(|| {
            let stream = TcpStream::connect(to).unwrap();
            stream
                .set_read_timeout(Some(Duration::from_secs(60)))
                .unwrap();
            stream
        });
        let tx = format!("h{client}n{asked}=1");
        let body = if door == "/" {
            broadcast(asked, BroadcastMethod::Sync, tx.as_bytes())
        } else {
            let tx = base64_simd::STANDARD.encode_to_string(tx);
            format!(r#"{{"tx_bytes":"{tx}","mode":"BROADCAST_MODE_SYNC"}}"#).into_bytes()
        };
        let head = format!(
            "POST {door} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all(&[head.as_bytes(), &body].concat())
            .unwrap();
        let answer = one_answer(stream);
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#""code":0"#),
            "{answer}"
        );
        asked += 1;
        progress
            .accepted
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if answer
            .to_ascii_lowercase()
            .contains("\r\nconnection: close\r\n")
        {
            connection = None;
        }
    }
    asked
}

/// The next answer, whose length is announced.
fn one_answer(stream: &mut TcpStream) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4_096]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
            if body.len() >= length.unwrap().1.parse().unwrap() {
                return text;
            }
        }
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "broken off: {text}");
        text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
}

const SUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"subscribe","params":["tm.event='NewBlock'"]}"#;

#[test]
fn a_new_process_takes_over_and_no_request_fails() {
    let node = Node::start();
    let place = place();
    // The listener of gRPC has no client.
    let (grpc, rest) = (local(free_port()), local(free_port()));
    let line = format!(
        "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --upstream {} --set listen.handover=handover --set grpc.listen={grpc} --set rest.listen={rest}",
        node.url()
    );
    let running = place.start(&line);
    let (front, admin) = addresses(&running);
    let progress = Progress::default();
    let mut running = Some(running);
    let total: u64 = thread::scope(|scope| {
        let at_work = progress.at_work();
        let doors = [("/", front), ("/", front), ("/cosmos/tx/v1beta1/txs", rest)];
        let kept = [1, 2, 3].map(|client| {
            let (door, progress) = (doors[client as usize - 1], &progress);
            scope.spawn(move || keep_asking(client, door, progress))
        });
        // Each over a connection of its own; no more than the burst of reads, so that none is over a rate.
        let fresh = scope.spawn(|| {
            for number in 0..180 {
                progress.reach(2 * number);
                let answer = Http::new(front, Duration::from_secs(60)).get("/status");
                assert_eq!(answer.unwrap().status, 200);
            }
        });
        for round in 1..=3 {
            progress.reach(round * 100);
            let mut subscriber = WebSocket::connect(front);
            let confirmed = subscriber.ask(SUBSCRIBE);
            assert!(confirmed.contains(r#""result":{}"#), "{confirmed}");
            // One that cannot serve changes nothing.
            place
                .run_to_end(&format!("{line} --set limits.batch=0"))
                .expect(2);
            let next = place.start(&line);
            next.said(&format!("serving address={front}"));
            next.said("took over from another process queries=1");
            running
                .take()
                .unwrap()
                .wait()
                .expect(0)
                .says("another process serves now")
                .says("ended");
            assert_eq!(
                Http::new(admin, Duration::from_secs(60))
                    .get("/healthz")
                    .unwrap()
                    .status,
                200
            );
            running = Some(next);
        }
        progress.reach(400);
        drop(at_work);
        fresh.join().unwrap();
        kept.map(|asking| asking.join().unwrap()).iter().sum()
    });
    assert!(total >= 400);
    let running = running.unwrap();
    running.signal(Signal::TERM);
    running.wait().expect(0).says("ended");
}
