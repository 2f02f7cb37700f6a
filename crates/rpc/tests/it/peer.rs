//! A connection and the smallest event loop that can own it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rpc::{Connection, ConnectionError, ConnectionOptions, Endpoint};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What arrived: status and body.
pub type Received = (u16, Vec<u8>);

/// A connection with what it received.
pub struct Peer {
    pub connection: Connection,
    pub received: Vec<Received>,
}

impl Peer {
    pub fn open(url: &str) -> Self {
        Self::open_with(url, &ConnectionOptions::default())
    }

    pub fn open_with(url: &str, options: &ConnectionOptions) -> Self {
        let endpoint: Endpoint = url.parse().unwrap();
        let address = endpoint.resolve().unwrap()[0];
        let connection = Connection::open(&endpoint, address, options).unwrap();
        Self {
            connection,
            received: Vec::new(),
        }
    }

    /// Waits once for the socket and serves it as the documentation of `Connection` says.
    pub fn turn(&mut self) -> Result<(), ConnectionError> {
        assert!(
            self.wait(TEST_LIMIT),
            "nothing happened within {TEST_LIMIT:?}"
        );
        let was_ready = self.connection.is_ready();
        if !was_ready && !self.connection.drive()? {
            return Ok(());
        }
        let received = &mut self.received;
        let mut keep = |message: rpc::Message<'_>| {
            received.push((message.status, message.body.to_vec()));
        };
        self.connection.read(&mut keep)?;
        self.connection.flush()?;
        Ok(())
    }

    /// Whether the socket became ready within the limit.
    pub fn wait(&self, limit: Duration) -> bool {
        let interest = self.connection.interest();
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, interest.read);
        flags.set(PollFlags::OUT, interest.write);
        let mut fds = [PollFd::from_borrowed_fd(self.connection.as_fd(), flags)];
        let timeout = Timespec::try_from(limit).unwrap();
        poll(&mut fds, Some(&timeout)).unwrap() > 0
    }

    pub fn until_ready(&mut self) -> Result<(), ConnectionError> {
        while !self.connection.is_ready() {
            self.turn()?;
        }
        Ok(())
    }

    /// Serves the socket until `count` messages are there.
    pub fn until(&mut self, count: usize) -> Result<(), ConnectionError> {
        let start = Instant::now();
        while self.received.len() < count {
            assert!(
                start.elapsed() < TEST_LIMIT,
                "only {} messages",
                self.received.len()
            );
            self.turn()?;
        }
        Ok(())
    }

    /// Serves the socket until it fails, and says how.
    pub fn until_error(&mut self) -> ConnectionError {
        loop {
            if let Err(error) = self.turn() {
                return error;
            }
        }
    }

    pub fn send(&mut self, body: &[u8]) -> u64 {
        let offset = self.connection.queue(body);
        self.connection.flush().unwrap();
        offset
    }

    /// The bodies received so far, as text.
    pub fn texts(&self) -> Vec<String> {
        self.received
            .iter()
            .map(|(_, body)| String::from_utf8(body.clone()).unwrap())
            .collect()
    }
}

/// Longer than any of these tests takes on a busy machine.
const TEST_LIMIT: Duration = Duration::from_secs(20);
