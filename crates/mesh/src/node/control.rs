//! The node's end of its control socket.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use crate::control::{Order, Word};

/// What the node is told.
pub(super) struct Orders {
    lines: Lines<BufReader<OwnedReadHalf>>,
}

/// What the node says, in order.
pub(super) struct Words {
    /// `None` when all is said.
    lines: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
}

pub(super) fn open(stream: UnixStream) -> (Orders, Words) {
    let (reading, writing) = stream.into_split();
    let (lines, waiting) = mpsc::channel(LINES_WAITING);
    let writer = tokio::task::spawn_local(write(writing, waiting));
    let orders = Orders {
        lines: BufReader::new(reading).lines(),
    };
    let words = Words {
        lines: Some(lines),
        writer: Some(writer),
    };
    (orders, words)
}

impl Orders {
    /// The next order; `None` when nobody is there to give any.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(super) async fn next(&mut self) -> Option<Order> {
        let line = self.lines.next_line().await.ok()??;
        // An order that is not understood comes from another version: there is no way on.
        serde_json::from_str(&line).ok()
    }

    /// Everybody's address, as the first order says.
    pub(super) async fn join(&mut self) -> Option<Vec<SocketAddr>> {
        match self.next().await? {
            Order::Join { peers } => Some(peers),
            _ => None,
        }
    }
}

impl Words {
    /// Says something. What nobody takes for a quarter of an hour is not said.
    pub(super) fn say(&self, word: &Word) {
        if let (Some(lines), Ok(mut line)) = (&self.lines, serde_json::to_vec(word)) {
            line.push(b'\n');
            let _ = lines.try_send(line);
        }
    }

    /// Says nothing more; what is given ends when everything is written.
    pub(super) fn close(&mut self) -> Option<JoinHandle<()>> {
        self.lines = None;
        self.writer.take()
    }
}

async fn write(mut stream: OwnedWriteHalf, mut lines: Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if stream.write_all(&line).await.is_err() {
            return;
        }
    }
}

const LINES_WAITING: usize = 1024;
