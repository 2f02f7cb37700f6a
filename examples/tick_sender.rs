//! A sender in the manner of wrk2: each millisecond it works off what has come due since the last one.
//!
//! `cargo run --release --example tick_sender -- ADDRESS RATE CONNECTIONS SECONDS BODY`
//!
//! It shows what a generator costs that stamps nothing, matches nothing and writes nothing down, and whose requests
//! leave in bursts of a tick (wrk2 1.x: `aeCreateTimeEvent` in whole milliseconds, one request in flight
//! on each connection). benches/peers/generate measures txgen beside it.

// A program that shows something prints it.
#![allow(clippy::print_stdout)]

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::event::{Timespec, epoll};

const TICK: Duration = Duration::from_millis(1);
/// What is unanswered this long after the last request stays so.
const DRAIN: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, rate, connections, seconds, body] = &arguments[..] else {
        bail!("usage: tick_sender ADDRESS RATE CONNECTIONS SECONDS BODY");
    };
    let rate: u64 = rate.parse().context("RATE is requests per second")?;
    let planned = rate * seconds.parse::<u64>().context("SECONDS is a number")?;
    let mut sender = Sender::connect(address, connections.parse()?, body)?;
    sender.run(rate, planned)?;
    let Sender {
        sent,
        answered,
        mut late_us,
        ..
    } = sender;
    late_us.sort_unstable();
    let late = |share: usize| late_us[(late_us.len() - 1) * share / 100];
    println!(
        r#"{{"sent": {sent}, "answered": {answered}, "lateness_p50_us": {}, "lateness_p99_us": {}, "lateness_max_us": {}}}"#,
        late(50),
        late(99),
        late(100)
    );
    Ok(())
}

/// One request in flight on each connection.
struct Sender {
    epoll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
    free: Vec<usize>,
    request: Vec<u8>,
    sent: u64,
    answered: u64,
    late_us: Vec<u64>,
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Sender {
    fn connect(address: &str, count: usize, body: &str) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::new();
        for number in 0..count {
            let stream = TcpStream::connect(address).context("cannot connect")?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN)?;
            let answer = Vec::new();
            connections.push(Connection { stream, answer });
        }
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        Ok(Self {
            epoll,
            connections,
            free: (0..count).rev().collect(),
            request: (head + body).into_bytes(),
            sent: 0,
            answered: 0,
            late_us: Vec::new(),
        })
    }

    fn run(&mut self, rate: u64, planned: u64) -> Result<()> {
        let begun = Instant::now();
        let mut tick = begun + TICK;
        let mut idle_since = begun;
        while self.answered < planned && idle_since.elapsed() < DRAIN {
            let now = Instant::now();
            if now >= tick {
                let elapsed = now.duration_since(begun);
                let due = (elapsed.as_nanos() as u64 * rate / 1_000_000_000 + 1).min(planned);
                self.work_off(due, rate, elapsed)?;
                let ticks = elapsed.as_nanos() / TICK.as_nanos() + 1;
                tick = begun + TICK * u32::try_from(ticks)?;
            }
            self.wait(tick.saturating_duration_since(Instant::now()))?;
            if self.sent < planned {
                idle_since = Instant::now();
            }
        }
        Ok(())
    }

    /// Sends what is due, as far as connections are free.
    fn work_off(&mut self, due: u64, rate: u64, elapsed: Duration) -> Result<()> {
        while self.sent < due
            && let Some(number) = self.free.pop()
        {
            let written = self.connections[number].stream.write(&self.request)?;
            ensure!(
                written == self.request.len(),
                "a socket took half a request"
            );
            let due_us = self.sent * 1_000_000 / rate;
            self.late_us.push(elapsed.as_micros() as u64 - due_us);
            self.sent += 1;
        }
        Ok(())
    }

    /// Reads answers until the tick.
    fn wait(&mut self, left: Duration) -> Result<()> {
        let mut events = Vec::with_capacity(64);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let buffer = rustix::buffer::spare_capacity(&mut events);
        epoll::wait(&self.epoll, buffer, Some(&timeout))?;
        for event in &events {
            let number = event.data.u64() as usize;
            if self.connections[number].read()? {
                self.answered += 1;
                self.free.push(number);
            }
        }
        Ok(())
    }
}

impl Connection {
    /// Whether the answer is complete.
    fn read(&mut self) -> Result<bool> {
        let mut bytes = [0; 4_096];
        match self.stream.read(&mut bytes) {
            Ok(0) => bail!("the server closed a connection"),
            Ok(read) => self.answer.extend_from_slice(&bytes[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(begin) = head.parse(&self.answer)? else {
            return Ok(false);
        };
        let length = head
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("content-length"))
            .context("an answer without Content-Length")?;
        let length: usize = std::str::from_utf8(length.value)?.parse()?;
        let is_complete = self.answer.len() >= begin + length;
        if is_complete {
            self.answer.clear();
        }
        Ok(is_complete)
    }
}
