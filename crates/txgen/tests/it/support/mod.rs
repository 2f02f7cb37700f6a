//! What the tests stand on: the program in a folder of its own, readers of what it leaves, and
//! nodes that behave or do not.

mod folder;

pub(crate) use folder::{RunFolder, Summary};
pub(crate) use testkit::{Behaviour, Ended, FakeChain, FakeNode, Running, Upgrades, wait_until};

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use devnode::{Blueprint, Config, DevNode};
use testkit::Judged;

/// A working folder of `txgen`; relative paths on command lines are inside it.
pub(crate) struct Place(testkit::Place);

impl Place {
    pub(crate) fn new() -> Self {
        let program = env!("CARGO_BIN_EXE_txgen");
        Self(testkit::Place::new(program, "TXGEN_"))
    }

    /// Runs `txgen` with the words of `line` to its end.
    pub(crate) fn txgen(&self, line: &str) -> Ended {
        self.run_to_end(line)
    }

    /// Runs `txgen` to its end with these variables in its environment.
    pub(crate) fn txgen_with(&self, variables: &[(&str, &str)], line: &str) -> Ended {
        self.run_with(variables, line)
    }

    /// Runs a script of the shell to its end; `$TXGEN` is the program.
    pub(crate) fn shell(&self, script: &str) -> Ended {
        self.0.shell("TXGEN", script)
    }

    /// A folder that a run left here.
    pub(crate) fn run(&self, name: &str) -> RunFolder {
        RunFolder::new(self.path().join(name))
    }
}

impl Deref for Place {
    type Target = testkit::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Judged for Summary {
    fn schedule(&self) -> &str {
        self.text("verdict.schedule")
    }

    fn bars(&self) -> Vec<&str> {
        self.list("verdict.bars")
    }

    fn assert_conserved(&self) {
        Self::assert_conserved(self);
    }
}

/// A second address of a server: every connection is carried over as it is.
pub(crate) struct Relay {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    acceptor: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let acceptor = {
            let (stopped, sockets) = (stopped.clone(), sockets.clone());
            thread::spawn(move || {
                for near in listener.incoming().map_while(Result::ok) {
                    if stopped.load(Ordering::Acquire) {
                        break;
                    }
                    let Ok(far) = TcpStream::connect(target) else {
                        continue;
                    };
                    for socket in [&near, &far] {
                        socket.set_nodelay(true).unwrap();
                        sockets.lock().unwrap().push(socket.try_clone().unwrap());
                    }
                    carry(near.try_clone().unwrap(), far.try_clone().unwrap());
                    carry(far, near);
                }
            })
        };
        Self {
            address,
            stopped,
            sockets,
            acceptor: Some(acceptor),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Carries one direction on a thread that ends with either socket.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().unwrap();
        }
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// A running node; dropping it stops it.
pub(crate) struct Node {
    node: Option<DevNode>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    pub(crate) fn start(node: impl Into<Blueprint>) -> Self {
        let blueprint = node.into();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let (node, worker) = DevNode::bind(blueprint).await.unwrap();
                sender.send(node).unwrap();
                worker.await;
            });
        });
        Self {
            node: Some(receiver.recv().unwrap()),
            thread: Some(thread),
        }
    }

    /// A node that makes blocks quickly, so that no test waits for one.
    pub(crate) fn quick() -> Self {
        Self::start(quick())
    }

    pub(crate) fn url(&self) -> String {
        self.rpc_url()
    }

    pub(crate) fn assert_none_came_twice(&self) {
        let committed = self.committed();
        let hashes: HashSet<_> = committed.iter().map(|tx| tx.0).collect();
        assert_eq!(hashes.len(), committed.len(), "a transaction came twice");
    }

    /// Every committed transaction's hash and height, in order.
    pub(crate) fn committed(&self) -> Vec<([u8; 32], u64)> {
        (1..=self.snapshot().height)
            .filter_map(|height| self.block(height))
            .flat_map(|block| {
                block
                    .txs
                    .into_iter()
                    .map(move |(hash, _)| (hash, block.height))
            })
            .collect()
    }
}

/// Blocks every 100 ms.
pub(crate) fn quick() -> Config {
    Config {
        block_interval: Duration::from_millis(100),
        ..Config::default()
    }
}

impl Deref for Node {
    type Target = DevNode;

    fn deref(&self) -> &DevNode {
        self.node.as_ref().expect("it is taken in drop only")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.shutdown();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
