//! The configuration changes under writes and subscriptions that are under way.

use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Http, Running};

use crate::command_line::place;
use crate::support::Node;
use crate::support::load::{Progress, Written, write};
use crate::support::websocket::{Received, WebSocket};

/// The address behind a word of a line of the log.
pub(crate) fn address_after(line: &str, word: &str) -> SocketAddr {
    let (_, rest) = line.split_once(word).unwrap();
    let end = rest.find(|c: char| !"0123456789.:".contains(c));
    rest[..end.unwrap_or(rest.len())].parse().unwrap()
}

fn status_of(running: &Running, admin: SocketAddr, text: &str) -> u16 {
    let answer = Http::new(admin, Duration::from_secs(20)).post("/reload", b"");
    let answer = answer.unwrap();
    assert!(
        answer.text().contains(text),
        "{} {}",
        answer.text(),
        running.err_so_far()
    );
    answer.status
}

#[test]
fn a_reload_in_a_burst_loses_no_write_no_websocket_and_no_event() {
    let node = Node::start();
    let place = place();
    let file = place.path().join("a.toml");
    fs::write(&file, "").unwrap();
    let line = format!(
        "--listen 127.0.0.1:0 --admin 127.0.0.1:0 --upstream {} --config a.toml",
        node.url()
    );
    let running = place.start(&line);
    let line = running.said("serving address=127.0.0.1:");
    let (front, admin) = (
        address_after(&line, "address="),
        address_after(&line, "page=http://"),
    );
    let mut events = WebSocket::connect(front);
    let subscribe = r#"{"id":1,"method":"subscribe","params":{"query":"tm.event='Tx'"}}"#;
    assert!(events.ask(subscribe).contains(r#""result":{}"#));
    let progress = Progress::default();
    let written: Vec<Written> = thread::scope(|scope| {
        let writers = [2, 3].map(|client| {
            let progress = &progress;
            scope.spawn(move || write(client, front, 20, progress))
        });
        for round in 1..=10 {
            progress.reach(round * 100);
            fs::write(
                &file,
                format!(
                    "[fair]\nmax_req = {}\n[limits]\nbatch = {round}\n",
                    900 + round
                ),
            )
            .unwrap();
            match round % 2 {
                0 => running.signal(Signal::HUP),
                _ => assert_eq!(status_of(&running, admin, "fair.max_req"), 200),
            }
            fs::write(&file, "[limits]\nbatch = 0\n").unwrap();
            assert_eq!(status_of(&running, admin, "a.toml:2: limits.batch"), 422);
        }
        progress.reach(1_100);
        progress.stop();
        writers.map(|writer| writer.join().unwrap()).into()
    });
    let total: u64 = written.iter().map(|one| one.sent).sum();
    for one in &written {
        assert!(one.errors.is_empty(), "{:?}", one.errors);
    }
    for _ in 0..total {
        match events.receive(Duration::from_secs(60)) {
            Received::Text(text) => assert!(text.contains("tendermint/event/Tx"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    drop(events);
    running.signal(Signal::TERM);
    running
        .wait()
        .expect(0)
        .says(&format!("of {total} writes taken {total} were forwarded"));
}
