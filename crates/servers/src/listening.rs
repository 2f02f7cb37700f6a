//! Ports for servers that cannot be asked which port they were given, and whether a server listens itself: another one
//! may have taken the port that was free a moment ago, and would answer in its place.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr as SocketName, UnixListener};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whether a process of the group listens on this port, as Linux shows in `/proc` (proc(5)); true where there is
/// none to ask.
pub(crate) fn listens(group: u32, address: SocketAddr) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return true;
    };
    let sockets = sockets(address.port());
    let processes = processes.filter_map(|process| Some(process.ok()?.path()));
    processes
        .filter(|process| is_of(group, process))
        .any(|process| has_one_of(&process, &sockets))
}

/// A process that listens on this port of the machine's network, of those whose files may be read. Of several that
/// share the socket it is any.
pub fn listener(port: u16) -> Option<i32> {
    let sockets = sockets(port);
    let processes = fs::read_dir("/proc").ok()?;
    let mut processes = processes.filter_map(|process| Some(process.ok()?.path()));
    processes.find_map(|process| {
        let pid = process.file_name()?.to_str()?.parse().ok()?;
        has_one_of(&process, &sockets).then_some(pid)
    })
}

/// The sockets that listen on a port, as `/proc/PID/fd` links to them. Linux lists those that listen before all others, of
/// which a busy machine has thousands (`tcp_get_idx` in its `net/ipv4/tcp_ipv4.c`).
fn sockets(port: u16) -> HashSet<String> {
    let port = format!(":{port:04X}");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(File::open);
    let listening = tables.into_iter().flatten().flat_map(|table| {
        let lines = BufReader::with_capacity(LESS_THAN_A_LINE, table).lines();
        let below_heading = lines.map_while(Result::ok).skip(1);
        below_heading.map_while(|line| listening(&line))
    });
    let on_port = listening.filter(|(local, _)| local.ends_with(&port));
    on_port.map(|(_, socket)| socket).collect()
}

/// Address and socket of a line, if it listens.
fn listening(line: &str) -> Option<(String, String)> {
    let mut fields = line.split_whitespace();
    let (local, state) = (fields.nth(1)?, fields.nth(1)?);
    let inode = fields.nth(5)?;
    (state == LISTEN).then(|| (local.to_owned(), format!("socket:[{inode}]")))
}

/// Linux searches on until it has filled what is read at once: so that it reads one line.
const LESS_THAN_A_LINE: usize = 128;

/// Whether a process is of the group: the third field behind its name in `/proc/PID/stat`.
fn is_of(group: u32, process: &Path) -> bool {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let its_group = fields.split_whitespace().nth(2);
    its_group.and_then(|text| text.parse().ok()) == Some(group)
}

fn has_one_of(process: &Path, sockets: &HashSet<String>) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    links
        .filter_map(|link| link.into_os_string().into_string().ok())
        .any(|link| sockets.contains(&link))
}

/// `TCP_LISTEN` of Linux's `include/net/tcp_states.h`.
const LISTEN: &str = "0A";

/// First port handed out; the range lies below Linux's ephemeral range (32768 and up), so that no
/// outgoing connection can take a port between our look and the server's bind.
const FIRST: u32 = 18_000;
/// Ports in the range.
const SPAN: u32 = 14_000;
/// Distance between the starting points of two processes.
const PROCESS_STRIDE: u32 = 61;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// 127.0.0.1 with a [`free_port`].
pub(crate) fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// A TCP port of 127.0.0.1 that was free a moment ago and that no other call of this function gets, in this process or
/// another of the same network namespace, before this process ends.
///
/// # Panics
/// If not one port between 18,000 and 31,999 can be had.
pub fn free_port() -> u16 {
    let start = std::process::id().wrapping_mul(PROCESS_STRIDE);
    for _ in 0..SPAN {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = start.wrapping_add(step) % SPAN;
        let Ok(port) = u16::try_from(FIRST + offset) else {
            continue;
        };
        if reserve(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + SPAN - 1);
}

/// Takes the port's name for as long as this process lives; false if it is taken. The name is an abstract socket
/// (unix(7)): as ports, it belongs to the network namespace, and it goes with its process, however that ends.
fn reserve(port: u16) -> bool {
    let name = SocketName::from_abstract_name(format!("tidegate-port-{port}"));
    let bound = name.and_then(|name| UnixListener::bind_addr(&name));
    // Not closed before the process ends.
    bound.map(std::mem::forget).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::process::getpgrp;

    use super::listener as listener_of;
    use super::*;

    #[test]
    fn a_port_is_listened_on_by_the_group_that_has_its_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let group = getpgrp().as_raw_nonzero().get().cast_unsigned();
        assert!(listens(group, address));
        assert_eq!(
            listener_of(address.port()),
            Some(std::process::id().cast_signed())
        );
        drop(listener);
        assert!(!listens(group, address));
        assert_eq!(listener_of(address.port()), None);
    }

    #[test]
    fn a_port_is_handed_out_once_and_not_while_another_process_has_its_name() {
        let first = free_port();
        assert!(!reserve(first));
        assert_ne!(first, free_port());
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, first)).is_ok());
    }
}
