//! https and wss against a small rustls server with a certificate of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use rpc::{ConnectionError, ConnectionOptions, Trust};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sha1::{Digest, Sha1};
use testkit::{FrameKind, frame, http_answer};

use crate::peer::Peer;

struct TlsServer {
    address: SocketAddr,
    root_pem: String,
}

type Secured = StreamOwned<ServerConnection, std::net::TcpStream>;

/// Serves connections until the process ends: the threads hold nothing that matters.
fn serve(script: impl Fn(&mut Secured) -> std::io::Result<()> + Send + 'static) -> TlsServer {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let issued = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for tcp in listener.incoming().map_while(Result::ok) {
            let session = ServerConnection::new(config.clone()).unwrap();
            let _ = script(&mut StreamOwned::new(session, tcp));
        }
    });
    TlsServer {
        address,
        root_pem: issued.cert.pem(),
    }
}

fn read_head(stream: &mut Secured) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).unwrap())
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let line = head.lines().find(|line| line.starts_with(name)).unwrap();
    line[name.len() + 1..].trim()
}

fn trusting(server: &TlsServer) -> ConnectionOptions {
    ConnectionOptions {
        trust: Trust::only(server.root_pem.as_bytes()).unwrap(),
        ..Default::default()
    }
}

#[test]
fn https_carries_large_requests_and_answers() {
    let server = serve(|stream| {
        loop {
            let head = read_head(stream)?;
            let mut body = vec![0; header(&head, "Content-Length").parse().unwrap()];
            stream.read_exact(&mut body)?;
            stream.write_all(&http_answer(200, std::str::from_utf8(&body).unwrap()))?;
        }
    });
    let url = format!("https://localhost:{}", server.address.port());
    let mut peer = Peer::open_with(&url, &trusting(&server));
    let large = "l".repeat(3 << 20);
    for (at, body) in ["first", &large, "third"].iter().enumerate() {
        let offset = peer.send(body.as_bytes());
        peer.until(at + 1).unwrap();
        assert_eq!(peer.connection.written_to(), offset);
        assert_eq!(peer.connection.unwritten(), 0);
    }
    assert_eq!(peer.texts(), ["first", &large, "third"]);
}

#[test]
fn wss_carries_frames() {
    let server = serve(|stream| {
        let head = read_head(stream)?;
        let digest = Sha1::new()
            .chain_update(header(&head, "Sec-WebSocket-Key"))
            .chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
            .finalize();
        let accept = base64_simd::STANDARD.encode_to_string(digest);
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        );
        // The first message travels in the same record as the end of the upgrade.
        let first = frame(FrameKind::Whole(1), b"welcome");
        stream.write_all(&[answer.as_bytes(), &first].concat())?;
        stream.write_all(&frame(FrameKind::Whole(9), b"ping"))?;
        let mut pong = [0; 10];
        stream.read_exact(&mut pong)?;
        assert_eq!(pong[..2], [0x8a, 0x84]);
        stream.write_all(&frame(FrameKind::Whole(1), &[b'x'; 100_000]))?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).map(drop)
    });
    let url = format!("wss://127.0.0.1:{}/websocket", server.address.port());
    let mut peer = Peer::open_with(&url, &trusting(&server));
    peer.until(2).unwrap();
    assert_eq!(peer.texts(), ["welcome", &"x".repeat(100_000)]);
}

#[test]
fn a_stranger_is_not_trusted() {
    let server = serve(|stream| read_head(stream).map(drop));
    let other = serve(|_| Ok(()));
    let url = format!("https://localhost:{}", server.address.port());
    let error = Peer::open_with(&url, &trusting(&other)).until_error();
    assert!(matches!(error, ConnectionError::Tls(_)), "{error}");
    assert!(error.to_string().contains("check the scheme"), "{error}");
}

#[test]
fn a_plain_server_behind_https_is_named() {
    let server = testkit::ScriptedServer::start(|connection| {
        connection.send("HTTP/1.1 400 Bad Request\r\n\r\n");
        connection.freeze();
    });
    let any_root = serve(|_| Ok(()));
    let url = format!("https://127.0.0.1:{}", server.address().port());
    let error = Peer::open_with(&url, &trusting(&any_root)).until_error();
    assert!(matches!(error, ConnectionError::Tls(_)), "{error}");
}

#[test]
fn a_root_that_is_none_is_refused() {
    let error = Trust::only(b"no certificate").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no certificate in the given PEM text")
    );
}
