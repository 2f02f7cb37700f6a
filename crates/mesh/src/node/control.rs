//! The node's end of its control socket.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

use crate::control::{NodeMessage, Order};

/// The commands of the program.
pub(super) struct Orders {
    lines: Lines<BufReader<OwnedReadHalf>>,
}

/// The messages to the program, in order.
pub(super) struct ControlWriter {
    /// `None` after the last message.
    lines: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
}

pub(super) fn open(stream: UnixStream) -> (Orders, ControlWriter) {
    let (reading, writing) = stream.into_split();
    let (lines, waiting) = mpsc::channel(LINES_WAITING);
    let writer = tokio::task::spawn_local(write(writing, waiting));
    let orders = Orders {
        lines: BufReader::new(reading).lines(),
    };
    let writer_end = ControlWriter {
        lines: Some(lines),
        writer: Some(writer),
    };
    (orders, writer_end)
}

impl Orders {
    /// The next command; `None` when the program has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub(super) async fn next(&mut self) -> Option<Order> {
        let line = self.lines.next_line().await.ok()??;
        // A command that cannot be read comes from another version: the node ends.
        serde_json::from_str(&line).ok()
    }

    /// The addresses of all nodes, from the first command.
    pub(super) async fn join(&mut self) -> Option<Vec<SocketAddr>> {
        match self.next().await? {
            Order::Join { peers } => Some(peers),
            _ => None,
        }
    }
}

impl ControlWriter {
    /// Sends a message. It is dropped when those of a quarter of an hour wait.
    pub(super) fn send(&self, message: &NodeMessage) {
        if let (Some(lines), Ok(mut line)) = (&self.lines, serde_json::to_vec(message)) {
            line.push(b'\n');
            let _ = lines.try_send(line);
        }
    }

    /// Ends the messages; the task that is given ends when all are written.
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
