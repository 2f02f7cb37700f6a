//! Ports for servers that cannot be asked which port they were given.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// First port handed out; the range lies below Linux's ephemeral range (32768 and up), so that no
/// outgoing connection can take a port between our look and the server's bind.
const FIRST: u32 = 18_000;
/// Ports in the range.
const SPAN: u32 = 14_000;
/// Distance between the starting points of two processes.
const PROCESS_STRIDE: u32 = 61;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A TCP port of 127.0.0.1 that was free a moment ago and that this process hands out only once.
///
/// # Panics
/// If not one port between 18,000 and 31,999 can be bound.
pub fn free_port() -> u16 {
    let start = std::process::id().wrapping_mul(PROCESS_STRIDE);
    for _ in 0..SPAN {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let offset = start.wrapping_add(step) % SPAN;
        let Ok(port) = u16::try_from(FIRST + offset) else {
            continue;
        };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + SPAN - 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_never_handed_out_twice() {
        let first = free_port();
        let second = free_port();
        assert_ne!(first, second);
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, second)).is_ok());
    }
}
