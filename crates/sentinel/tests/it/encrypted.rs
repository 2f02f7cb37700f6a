//! Clients over TLS while certificates, configuration and program are replaced.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rpc::BroadcastMethod;
use rustix::process::Signal;
use testkit::{Authority, Http};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::command_line::place;
use crate::reload::addresses;
use crate::support::load::Progress;
use crate::support::{Node, broadcast};

type Connection = BufReader<StreamOwned<ClientConnection, TcpStream>>;

fn connect(to: SocketAddr, config: &Arc<ClientConfig>) -> Connection {
    let stream = TcpStream::connect(to).unwrap();
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    let name = "localhost".try_into().unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    BufReader::new(StreamOwned::new(session, stream))
}

/// The answer to a write, and whether its connection ends.
fn write(connection: &mut Connection, number: u64, client: u64) -> (String, bool) {
    let tx = format!("t{client}n{number}=1");
    let body = broadcast(number, BroadcastMethod::Sync, tx.as_bytes());
    let len = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n");
    let stream = connection.get_mut();
    stream
        .write_all(&[head.as_bytes(), &body].concat())
        .unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(connection.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let lines = || head.lines().filter_map(|line| line.split_once(": "));
    let value = |wanted: &str| {
        let mut found = lines().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.next().map(|(_, value)| value.to_owned())
    };
    let mut body = vec![0; value("content-length").unwrap().parse().unwrap()];
    connection.read_exact(&mut body).unwrap();
    let ends = value("connection").is_some_and(|value| value == "close");
    (head + std::str::from_utf8(&body).unwrap(), ends)
}

/// Writes one after the other, each connection for ten of them. Whoever trusts no certificate of now, fails.
fn keep_writing(client: u64, to: SocketAddr, config: &Arc<ClientConfig>, progress: &Progress) {
    let mut connection: Option<Connection> = None;
    let mut number = 0;
    while !progress.stop.load(Ordering::Relaxed) {
        let open = connection.get_or_insert_with(|| connect(to, config));
        let (answer, ends) = write(open, number, client);
        assert!(answer.contains(r#""code":0"#), "{answer}");
        number += 1;
        if ends || number % 10 == 0 {
            connection = None;
        }
        progress.accepted.fetch_add(1, Ordering::Relaxed);
    }
}

/// The certificate that new connections are shown.
fn shown(to: SocketAddr, config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut connection = connect(to, config);
    let stream = connection.get_mut();
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn tls_33_certificates_and_program_are_replaced_under_writes_and_no_request_fails() {
    let (node, place, authority) = (Node::start(), place(), Authority::default());
    let pairs = [(); 3].map(|()| authority.issue(&["localhost"]));
    let put = |number: usize| {
        let text = pairs[number].key.clone() + &pairs[number].certificate;
        let part = place.write("part.pem", text);
        fs::rename(part, place.path().join("pair.pem")).unwrap();
    };
    put(0);
    place.write("a.toml", "[tls]\ncertificates = [\"pair.pem\"]\n");
    let line = format!(
        "--config a.toml --listen 127.0.0.1:0 --admin 127.0.0.1:0 --upstream {} --set listen.handover=handover",
        node.url()
    );
    let first = place.start(&line);
    let (front, admin) = addresses(&first);
    let config = Arc::new(authority.client(None, &["http/1.1"]));
    let reload = || {
        let answer = Http::new(admin, Duration::from_secs(20)).post("/reload", b"");
        let answer = answer.unwrap();
        (answer.status, answer.text())
    };
    let progress = Progress::default();
    let mut running = Some(first);
    thread::scope(|scope| {
        let _at_work = progress.at_work();
        for client in 0..2 {
            let (config, progress) = (&config, &progress);
            scope.spawn(move || keep_writing(client, front, config, progress));
        }
        for round in 0..6 {
            progress.reach(50 * round + 50);
            let now = (round as usize + 1) % 3;
            put(now);
            assert_eq!(reload().0, 200);
            assert_eq!(shown(front, &config), pairs[now].der().to_vec());
            // What is wrong changes nothing, and says where it is.
            place.write("pair.pem", "");
            let (status, text) = reload();
            assert!(
                status == 422
                    && text.contains("a.toml:2: tls.certificates: pair.pem: no certificate"),
                "{status} {text}"
            );
            assert_eq!(shown(front, &config), pairs[now].der().to_vec());
            if round == 3 {
                place
                    .run_to_end(&line)
                    .expect(2)
                    .says("tls.certificates: pair.pem");
                put(now);
                let next = place.start(&line);
                next.said(&format!("serving address={front}"));
                let last = running.replace(next).unwrap();
                last.wait().expect(0).says("another process serves now");
                assert_eq!(shown(front, &config), pairs[now].der().to_vec());
            }
        }
    });
    let running = running.unwrap();
    running.signal(Signal::TERM);
    running.wait().expect(0).says("ended");
}
