//! The configuration changes under writes and subscriptions that are under way.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

use rpc::BroadcastMethod;
use rustix::process::Signal;
use testkit::{Http, Running};

use crate::command_line::place;
use crate::support::load::{Progress, Written, committed, committed_at_least, wait_for, write};
use crate::support::websocket::{Received, WebSocket, connect_from};
use crate::support::{Node, Proxy, broadcast};

/// The address behind a word of a line of the log.
pub(crate) fn address_after(line: &str, word: &str) -> SocketAddr {
    let (_, rest) = line.split_once(word).unwrap();
    let end = rest.find(|c: char| !"0123456789.:".contains(c));
    rest[..end.unwrap_or(rest.len())].parse().unwrap()
}

/// Where a program that has begun to serve has its clients, and its operator.
pub(crate) fn addresses(running: &Running) -> (SocketAddr, SocketAddr) {
    let said = running.said("serving address=127.0.0.1:");
    (
        address_after(&said, "address="),
        address_after(&said, "page=http://"),
    )
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
    let (front, admin) = addresses(&running);
    let mut events = WebSocket::connect(front);
    let subscribe = r#"{"id":1,"method":"subscribe","params":{"query":"tm.event='Tx'"}}"#;
    assert!(events.ask(subscribe).contains(r#""result":{}"#));
    let progress = Progress::default();
    let written: Vec<Written> = thread::scope(|scope| {
        let at_work = progress.at_work();
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
        drop(at_work);
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

#[test]
fn a_ban_ends_what_its_client_has_open_and_touches_nobody_else() {
    let node = Node::start();
    let proxy = Proxy::start(&node.url());
    let [banned, other] = [[127, 0, 0, 7], [127, 0, 0, 8]].map(IpAddr::from);
    let mut sockets = [banned, other].map(|from| WebSocket::connect_from(from, proxy.address));
    let status = r#"{"id":1,"method":"status"}"#;
    for socket in &mut sockets {
        assert!(socket.ask(status).contains("result"));
    }
    let order = |path: &str| proxy.admin().post(path, b"").unwrap();
    assert_eq!(order("/ban?who=127.0.0.7&for=1h&why=test").status, 200);
    let listed = proxy.admin().get("/bans").unwrap().text();
    assert!(
        listed.contains("127.0.0.7") && listed.contains("test"),
        "{listed}"
    );
    let [ours, theirs] = &mut sockets;
    ours.send(status.as_bytes());
    assert_eq!(ours.receive(Duration::from_secs(20)), Received::Closed);
    assert!(theirs.ask(status).contains("result"));
    let refused = request_from(banned, proxy.address);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert!(request_from(other, proxy.address).starts_with("HTTP/1.1 200 "));
    assert_eq!(order("/unban?who=127.0.0.7").status, 200);
    assert!(request_from(banned, proxy.address).starts_with("HTTP/1.1 200 "));
    assert_eq!(order("/unban?who=127.0.0.7").status, 404);
    drop(sockets);
    proxy.stop();
}

/// The whole answer to a read from this address.
fn request_from(from: IpAddr, to: SocketAddr) -> String {
    let mut stream = connect_from(from, to);
    stream
        .write_all(b"GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_drained_node_gets_nothing_and_writes_go_to_the_other_one_or_wait() {
    let [first, second] = [(); 2].map(|()| Node::start());
    let proxy = Proxy::with(&first.url(), |config| {
        config.upstream.urls.push(second.url().parse().unwrap());
    });
    let write = |number: u64| {
        let tx = format!("d{number}=1");
        let body = broadcast(number, BroadcastMethod::Sync, tx.as_bytes());
        let answer = proxy.http().post("/", &body).unwrap().text();
        assert!(answer.contains(r#""code":0"#), "{answer}");
        tx
    };
    let order = |path: String| proxy.admin().post(&path, b"").unwrap().status;
    let on_first = write(1);
    // Writes go to the node that was healthy first.
    let has_it = |node: &Node| !committed(node.node.rpc_address()).is_empty();
    wait_for("a block with the write", || {
        has_it(&first) || has_it(&second)
    });
    let (first, second) = if has_it(&first) {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(
        order(format!("/drain?node={}&for=1h&why=disk", first.url())),
        200
    );
    let ready = proxy.admin().get("/readyz").unwrap().text();
    assert!(ready.contains(r#""ends_in_seconds": 3"#), "{ready}");
    assert!(ready.contains(r#""why": "disk""#), "{ready}");
    let on_second = write(2);
    assert_eq!(
        committed_at_least(second.node.rpc_address(), 1),
        [on_second]
    );
    assert_eq!(committed_at_least(first.node.rpc_address(), 1), [on_first]);
    // Nothing is left that takes writes: this one waits until a node may be used again.
    assert_eq!(order("/pause?for=1h&why=disk".to_owned()), 200);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| write(3));
        wait_for("a write that waits", || {
            proxy
                .admin()
                .get("/metrics")
                .unwrap()
                .text()
                .contains("sentinel_queue_depth 1\n")
        });
        assert_eq!(order("/resume".to_owned()), 200);
        waiting.join().unwrap();
    });
    wait_for("a block with it", || {
        let all = [&first, &second].map(|node| committed(node.node.rpc_address()).len());
        all.iter().sum::<usize>() == 3
    });
    proxy.stop();
}
