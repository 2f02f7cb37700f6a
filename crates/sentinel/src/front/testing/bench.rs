//! A front on connections in memory, and its clients.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use ops::accept::Accept;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_util::sync::CancellationToken;

use super::{Body, Fake};
use crate::config::Config;
use crate::front::socket::Stream;
use crate::front::{Shared, listener};
use crate::metrics::Gauges;
use crate::shared_context::SharedContext;
use crate::upstream::ReadAnswer;

/// A front on connections in memory.
pub(in crate::front) struct Bench {
    pub(in crate::front) fake: Fake,
    pub(in crate::front) shared: Arc<Shared<Fake>>,
    pub(in crate::front) stop: CancellationToken,
    pub(in crate::front) serving: JoinHandle<usize>,
    connections: mpsc::UnboundedSender<(Pipe, SocketAddr)>,
}

/// The client's end of a connection. Dropped, it resets the connection.
pub(in crate::front) struct Client(pub(in crate::front) DuplexStream, Arc<AtomicUsize>);

/// The other end. It counts its writes.
pub(in crate::front) struct Pipe(DuplexStream, Weak<AtomicUsize>);

/// What fits between client and front.
const PIPE: usize = 64 << 10;
/// Looks at the sockets after which nothing more is expected.
const MOST_LOOKS: usize = 10_000;

impl Bench {
    /// With the default configuration.
    pub(in crate::front) fn new() -> Self {
        Self::with(|_| {})
    }

    /// With another configuration.
    pub(in crate::front) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let fake = Fake::default();
        fake.state().known = Some(Arc::clone(&config.known));
        let stop = CancellationToken::new();
        let shared = Shared::new(
            fake.clone(),
            SharedContext {
                seed: [1, 2],
                ..SharedContext::new(config, stop.clone())
            },
        );
        let shared = Arc::new(shared.unwrap());
        let (connections, listener) = mpsc::unbounded_channel();
        Self {
            serving: tokio::spawn(listener::serve(Arc::clone(&shared), Pipes(listener))),
            fake,
            shared,
            stop,
            connections,
        }
    }

    /// Serves another listener, which has no client.
    pub(in crate::front) fn serve_door(&self) -> JoinHandle<usize> {
        let nobody = Pipes(mpsc::unbounded_channel().1);
        tokio::spawn(listener::serve(Arc::clone(&self.shared), nobody))
    }

    /// Connects from an address.
    pub(in crate::front) fn connect_from(&self, address: [u8; 4]) -> Client {
        let (client, server) = duplex(PIPE);
        let writes = Arc::default();
        let server = Pipe(server, Arc::downgrade(&writes));
        self.connections
            .send((server, (address, 1).into()))
            .unwrap();
        Client(client, writes)
    }

    /// Connects.
    pub(in crate::front) fn connect(&self) -> Client {
        self.connect_from([192, 0, 2, 1])
    }

    /// What `count` rises by between any two looks of the runtime at its sockets, until it is `all`.
    pub(in crate::front) async fn rises(
        &self,
        all: usize,
        count: impl Fn(&Self) -> usize,
    ) -> Vec<usize> {
        let (mut rises, mut before) = (Vec::new(), count(self));
        while before < all {
            assert!(rises.len() < MOST_LOOKS, "{before} of {all}: {rises:?}");
            tokio::task::yield_now().await;
            let now = count(self);
            rises.push(now - before);
            before = now;
        }
        rises
    }

    /// The next read is answered with this.
    pub(in crate::front) fn will_answer(&self, answer: ReadAnswer<Body>) {
        self.fake.state().answers.push_back(Ok(answer));
    }

    /// The value of a metric.
    pub(in crate::front) fn metric(&self, series: &str) -> String {
        let text = self.shared.metrics.render(&Gauges::default());
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or("none").trim().to_owned()
    }
}

struct Pipes(mpsc::UnboundedReceiver<(Pipe, SocketAddr)>);

impl Accept for Pipes {
    type Stream = Pipe;

    async fn accept(&mut self) -> io::Result<(Pipe, SocketAddr)> {
        match self.0.recv().await {
            Some(connection) => Ok(connection),
            None => std::future::pending().await,
        }
    }
}

impl Stream for Pipe {
    fn is_hung_up(&self) -> bool {
        self.is_reset()
    }

    fn is_reset(&self) -> bool {
        self.1.strong_count() == 0
    }
}

impl Stream for DuplexStream {
    fn is_hung_up(&self) -> bool {
        false
    }

    fn is_reset(&self) -> bool {
        false
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(writes) = self.1.upgrade() {
            writes.fetch_add(1, Ordering::Relaxed);
        }
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Client {
    /// Agrees on keys as the client of a server of this name; what is given beside the stream keeps it open.
    pub(in crate::front) async fn encrypt(
        self,
        config: ClientConfig,
        name: &'static str,
    ) -> io::Result<(TlsStream<DuplexStream>, Arc<AtomicUsize>)> {
        let (stream, open) = self.into_parts();
        let name = name.try_into().unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream);
        Ok((stream.await?, open))
    }

    /// Its stream, and what keeps it open.
    pub(in crate::front) fn into_parts(self) -> (DuplexStream, Arc<AtomicUsize>) {
        (self.0, self.1)
    }

    /// How often the front has written to it.
    pub(in crate::front) fn writes(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }

    pub(in crate::front) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// POSTs a body.
    pub(in crate::front) async fn post(&mut self, body: &str) {
        self.post_to("/", "", body).await;
    }

    /// POSTs a body to this target, with further header lines.
    pub(in crate::front) async fn post_to(&mut self, target: &str, headers: &str, body: &str) {
        let len = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len}");
        self.send(format!("{head}\r\n\r\n{body}")).await;
    }

    /// GETs this target.
    pub(in crate::front) async fn get(&mut self, target: &str) {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.send(request).await;
    }

    /// The next answer: its head and its body, chunks undone.
    pub(in crate::front) async fn answer(&mut self) -> (String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.expect("an answer"));
        }
        let head = String::from_utf8(head).unwrap();
        let mut body = Vec::new();
        if let Some((_, rest)) = head.split_once("Content-Length: ") {
            body.resize(rest.split_once('\r').unwrap().0.parse().unwrap(), 0);
            self.0.read_exact(&mut body).await.unwrap();
        } else if head.contains("chunked") {
            while !body.ends_with(b"0\r\n\r\n") {
                body.push(self.0.read_u8().await.unwrap());
            }
        }
        (head, String::from_utf8(body).unwrap())
    }

    /// The status line and the body of the next answer.
    pub(in crate::front) async fn status(&mut self) -> (u16, String) {
        let (head, body) = self.answer().await;
        (head[9..12].parse().unwrap(), body)
    }

    /// Everything up to the end of the connection.
    pub(in crate::front) async fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        let read = self.0.read_to_end(&mut rest);
        // A reset is an end as well.
        let _ = tokio::time::timeout(Duration::from_secs(3_600), read)
            .await
            .expect("the connection ends");
        String::from_utf8_lossy(&rest).into_owned()
    }
}
