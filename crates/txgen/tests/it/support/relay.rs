//! A relay that gives a node a second address.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

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
