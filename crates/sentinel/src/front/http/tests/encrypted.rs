//! Connections over TLS.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tempfile::TempDir;
use testkit::{Authority, Issued};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::UnixTime;

use super::streams::{post, speak, text};
use super::*;
use crate::budget::HANDSHAKES_PER_CLIENT;
use crate::config::{CertificateFiles, Config};
use crate::front::encrypted::CONNECTION_BYTES;
use crate::tls;

/// A front with certificates for `a.example` and `b.example`, in this order.
struct Secure {
    bench: Bench,
    authority: Authority,
    issued: [Issued; 2],
    _files: TempDir,
}

type Opened = (TlsStream<DuplexStream>, Arc<AtomicUsize>);

impl Secure {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        Self::with(change, |_, _| {})
    }

    /// With other settings of TLS, for which an authority's file is there.
    fn with(change: impl FnOnce(&mut Config), set: impl FnOnce(&mut Config, String)) -> Self {
        let (files, authority) = (tempfile::tempdir().unwrap(), Authority::default());
        let place = |name: &str, text: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let issued = ["a.example", "b.example"].map(|name| authority.issue(&[name]));
        let mut settings = Config::default();
        for (number, pair) in issued.iter().enumerate() {
            settings.tls.certificates.push(CertificateFiles {
                chain: place(&format!("{number}.pem"), &pair.certificate),
                key: place(&format!("{number}.key"), &pair.key),
            });
        }
        set(&mut settings, place("authority.pem", &authority.pem));
        let bench = Bench::with(change);
        let config = tls::load(&settings, UnixTime::now()).unwrap();
        bench.shared.tls.follow(config);
        Self {
            bench,
            authority,
            issued,
            _files: files,
        }
    }

    fn client(&self) -> ClientConfig {
        self.authority.client(None, &[])
    }

    async fn open(&self, from: [u8; 4]) -> io::Result<Opened> {
        let connection = self.bench.connect_from(from);
        connection.encrypt(self.client(), "a.example").await
    }

    /// The certificate that is shown to a client that asks for this name.
    async fn shown(&self, config: ClientConfig, name: &'static str) -> Option<Vec<u8>> {
        let opened = self.bench.connect().encrypt(config, name).await.ok()?;
        let shown = opened.0.get_ref().1.peer_certificates()?;
        Some(shown[0].to_vec())
    }
}

const CLIENT: [u8; 4] = [192, 0, 2, 1];
const OTHER: [u8; 4] = [192, 0, 2, 2];

/// The whole answer to one request, whose connection ends behind it.
async fn ask(opened: &mut Opened, body: &str) -> String {
    let len = body.len();
    let head = format!("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len}");
    let request = format!("{head}\r\n\r\n{body}");
    let mut text = String::new();
    let (mut reading, mut writing) = tokio::io::split(&mut opened.0);
    let asked = async {
        writing.write_all(request.as_bytes()).await.unwrap();
        writing.flush().await.unwrap();
    };
    let read = async { reading.read_to_string(&mut text).await.unwrap() };
    tokio::join!(asked, read);
    text
}

#[tokio::test(start_paused = true)]
async fn tls_33_a_client_gets_the_certificate_of_the_name_that_it_asks_for() {
    let secure = Secure::new(|_| {});
    let [first, second] = secure
        .issued
        .each_ref()
        .map(|pair| Some(pair.der().to_vec()));
    assert_eq!(secure.shown(secure.client(), "b.example").await, second);
    assert_eq!(secure.shown(secure.client(), "a.example").await, first);
    // An unknown name gets the first one, which its client does not accept; and so does one without a name.
    assert_eq!(secure.shown(secure.client(), "c.example").await, None);
    let nameless = || {
        let mut config = secure.client();
        config.enable_sni = false;
        config
    };
    assert_eq!(secure.shown(nameless(), "b.example").await, None);
    assert_eq!(secure.shown(nameless(), "a.example").await, first);
}

#[tokio::test(start_paused = true)]
async fn tls_33_requests_and_long_answers_are_whole() {
    let secure = Secure::new(|_| {});
    let pieces = ["a", "b", "c"].map(|letter| letter.repeat(200_000));
    let [first, second, third] = pieces.each_ref().map(String::as_str);
    secure
        .bench
        .will_answer(ReadAnswer::pieces(200, &[first, second, third]));
    let mut opened = secure.open(CLIENT).await.unwrap();
    let answer = ask(&mut opened, &call(1, "status")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{}", &answer[..200]);
    for (letter, piece) in ["a", "b", "c"].iter().zip(&pieces) {
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.matches(letter).count(), piece.len(), "{letter}");
    }
    let long = "x".repeat(700_000);
    let mut opened = secure.open(CLIENT).await.unwrap();
    let answer = ask(&mut opened, &sync(1, &long)).await;
    assert!(answer.contains(&answer_to(1, &long)), "{}", &answer[..200]);
}

/// A client that opens connections and finishes no handshake has a bound of its own, and ends in time.
#[tokio::test(start_paused = true)]
async fn tls_32_slow_handshakes_of_one_client_keep_nobody_out() {
    let secure = Secure::new(|_| {});
    let silent: Vec<Client> = (0..400)
        .map(|_| secure.bench.connect_from(CLIENT))
        .collect();
    settle().await;
    let refused = 400 - HANDSHAKES_PER_CLIENT;
    let rejected = || {
        secure
            .bench
            .metric("sentinel_rejected_total{reason=\"conns\"}")
    };
    assert_eq!(rejected(), refused.to_string());
    assert!(secure.open(CLIENT).await.is_err());
    let mut other = secure.open(OTHER).await.unwrap();
    assert!(
        ask(&mut other, &sync(1, "x"))
            .await
            .ends_with(&answer_to(1, "x"))
    );
    sleep(Duration::from_secs(11)).await;
    let late = secure
        .bench
        .metric("sentinel_rejected_total{reason=\"parse\"}");
    assert_eq!(late, HANDSHAKES_PER_CLIENT.to_string());
    assert!(secure.open(CLIENT).await.is_ok());
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn tls_32_keys_and_buffers_of_connections_are_in_the_account() {
    let secure = Secure::new(|config| config.buffer.bytes = 2 << 20);
    let mut opened = Vec::new();
    // Half of what there is, less the reserve, is one client's.
    while let Ok(next) = secure.open(CLIENT).await {
        opened.push(next);
        settle().await;
        let held = secure.bench.shared.ledger.used();
        assert_eq!(held, opened.len() * CONNECTION_BYTES);
    }
    assert!((40..80).contains(&opened.len()), "{}", opened.len());
    assert!(secure.open(OTHER).await.is_ok());
    drop(opened);
    settle().await;
    assert_eq!(secure.bench.shared.ledger.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn tls_33_certificates_of_clients_are_required_or_beside_keys_wanted() {
    let stranger = Authority::default().issue(&["client"]);
    for is_required in [false, true] {
        let set = |settings: &mut Config, file: String| {
            settings.keys.file = (!is_required).then(|| file.clone());
            settings.tls.client_ca = Some(file);
        };
        let secure = Secure::with(|_| {}, set);
        let known = secure.authority.issue(&["client"]);
        for (own, is_let_in) in [
            (None, !is_required),
            (Some(&known), true),
            (Some(&stranger), false),
        ] {
            let config = secure.authority.client(own, &[]);
            let connection = secure.bench.connect();
            // With TLS 1.3 a client learns what became of its certificate when it reads.
            let opened = connection.encrypt(config, "a.example").await;
            let mut answer = Vec::new();
            if let Ok((mut stream, _open)) = opened {
                let _ = stream.write_all(b"GET /status HTTP/1.0\r\n\r\n").await;
                let _ = stream.read_to_end(&mut answer).await;
            }
            assert_eq!(answer.starts_with(b"HTTP/1.0 200"), is_let_in, "{own:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tls_33_http_2_is_agreed_on_with_the_keys() {
    let secure = Secure::new(|_| {});
    let config = secure.authority.client(None, &["h2", "http/1.1"]);
    let connection = secure.bench.connect();
    let (stream, _open) = connection.encrypt(config, "a.example").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, _task) = speak(stream).await;
    let answer = sender.send_request(post(&sync(1, "x"))).await.unwrap();
    assert_eq!(text(answer).await, answer_to(1, "x"));
    // Nothing else is spoken.
    let config = secure.authority.client(None, &["spdy/3"]);
    let connection = secure.bench.connect();
    assert!(connection.encrypt(config, "a.example").await.is_err());
}

/// What is no TLS, and what breaks off, ends the connection and nothing else.
#[tokio::test(start_paused = true)]
async fn tls_32_what_is_no_handshake_is_closed() {
    let secure = Secure::new(|_| {});
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff\x01",
        b"\x16\x03\x01\0\x05\x01\xff\xff\xff\xff",
        b"\x15\x03\x01\0\x02\x02\x28",
    ] {
        let mut client = secure.bench.connect();
        client.send(bytes).await;
        client.rest().await;
    }
    settle().await;
    assert_eq!(secure.bench.shared.ledger.used(), 0);
    assert!(secure.open(CLIENT).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn tls_33_a_proxy_header_comes_before_the_handshake() {
    let secure = Secure::new(|config| {
        config.trust.proxies = vec!["10.0.0.0/8 proxy-protocol".parse().unwrap()];
    });
    let mut connection = secure.bench.connect_from([10, 0, 0, 1]);
    connection
        .send("PROXY TCP4 203.0.113.9 192.0.2.9 1 2\r\n")
        .await;
    let mut opened = connection
        .encrypt(secure.client(), "a.example")
        .await
        .unwrap();
    assert!(
        ask(&mut opened, &sync(1, "x"))
            .await
            .ends_with(&answer_to(1, "x"))
    );
    assert_eq!(secure.bench.fake.state().clients, ["203.0.113.9"]);
    // Another way round it is no handshake.
    let connection = secure.bench.connect_from([10, 0, 0, 1]);
    assert!(
        connection
            .encrypt(secure.client(), "a.example")
            .await
            .is_err()
    );
}
