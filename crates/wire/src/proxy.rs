//! The PROXY protocol: the client that a proxy in TCP mode names before the first byte of a connection, in
//! version 1 (a line) or 2 (binary). HAProxy's `doc/proxy-protocol.txt`, sections 2.1 and 2.2.

use core::net::IpAddr;

use ppp::{v1, v2};

/// What is known of a header so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// It goes on: so many bytes more belong to it in any case.
    More(usize),
    /// It is complete, and names the client of the connection.
    Client(IpAddr),
    /// It is complete, and names no client (`LOCAL`, `UNKNOWN`, a Unix socket): the other end is the client.
    Local,
}

/// Why there is no header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeaderError {
    /// The connection begins with something else.
    #[error("no PROXY header: send one (haproxy: send-proxy-v2), or take the network off the list")]
    Missing,
    /// It is longer than this many bytes.
    #[error("a PROXY header of more than {0} bytes")]
    TooLong(usize),
    /// It contradicts the protocol, and how.
    #[error("a malformed PROXY header: {0}")]
    Malformed(String),
}

/// The longest header of version 2 that is taken: addresses of a Unix socket, and the names and certificate fields
/// that HAProxy can add.
pub const MAX_HEADER_BYTES: usize = 4_096;
/// The longest line of version 1, its end included.
const MAX_LINE_BYTES: usize = 107;
/// The shortest header: `PROXY UNKNOWN` and its line end.
const MIN_BYTES: usize = 15;
/// The signature of version 2, its command, family and length.
const BINARY_HEAD_BYTES: usize = 16;
const V1: &[u8] = v1::PROTOCOL_PREFIX.as_bytes();
const V2: &[u8] = v2::PROTOCOL_PREFIX;

/// Reads the header from the first bytes of a connection. A caller that reads the bytes it asks for never reads past it.
///
/// # Errors
/// [`ProxyHeaderError`]; the connection is of no use then.
pub fn read_proxy_header(bytes: &[u8]) -> Result<ProxyHeader, ProxyHeaderError> {
    let begins = |prefix: &[u8]| {
        let len = prefix.len().min(bytes.len());
        bytes[..len] == prefix[..len]
    };
    if !begins(V1) && !begins(V2) {
        return Err(ProxyHeaderError::Missing);
    }
    if bytes.len() < MIN_BYTES {
        return Ok(ProxyHeader::More(MIN_BYTES - bytes.len()));
    }
    if begins(V2) {
        binary(bytes)
    } else {
        line(bytes)
    }
}

fn line(bytes: &[u8]) -> Result<ProxyHeader, ProxyHeaderError> {
    let line = &bytes[..bytes.len().min(MAX_LINE_BYTES)];
    let Some(end) = memchr::memchr(b'\n', line) else {
        return match line.len() {
            MAX_LINE_BYTES => Err(ProxyHeaderError::TooLong(MAX_LINE_BYTES)),
            _ => Ok(ProxyHeader::More(1)),
        };
    };
    let header = v1::Header::try_from(&line[..=end]);
    let header = header.map_err(|error| ProxyHeaderError::Malformed(error.to_string()))?;
    Ok(match header.addresses {
        v1::Addresses::Unknown => ProxyHeader::Local,
        v1::Addresses::Tcp4(addresses) => ProxyHeader::Client(addresses.source_address.into()),
        v1::Addresses::Tcp6(addresses) => ProxyHeader::Client(addresses.source_address.into()),
    })
}

fn binary(bytes: &[u8]) -> Result<ProxyHeader, ProxyHeaderError> {
    let Some(length) = bytes.get(BINARY_HEAD_BYTES - 2..BINARY_HEAD_BYTES) else {
        return Ok(ProxyHeader::More(BINARY_HEAD_BYTES - bytes.len()));
    };
    let whole = BINARY_HEAD_BYTES + usize::from(length[0]) * 256 + usize::from(length[1]);
    if whole > MAX_HEADER_BYTES {
        return Err(ProxyHeaderError::TooLong(MAX_HEADER_BYTES));
    }
    if bytes.len() < whole {
        return Ok(ProxyHeader::More(whole - bytes.len()));
    }
    let header = v2::Header::try_from(&bytes[..whole]);
    let header = header.map_err(|error| ProxyHeaderError::Malformed(error.to_string()))?;
    Ok(match (header.command, header.addresses) {
        (v2::Command::Proxy, v2::Addresses::IPv4(addresses)) => {
            ProxyHeader::Client(addresses.source_address.into())
        }
        (v2::Command::Proxy, v2::Addresses::IPv6(addresses)) => {
            ProxyHeader::Client(addresses.source_address.into())
        }
        _ => ProxyHeader::Local,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as a connection is read: never more than asked for. What was found, and what is left.
    fn read(bytes: &[u8]) -> (Result<ProxyHeader, ProxyHeaderError>, usize) {
        let mut taken = 0;
        loop {
            match read_proxy_header(&bytes[..taken]) {
                Ok(ProxyHeader::More(more)) if taken + more <= bytes.len() => taken += more,
                found => return (found, bytes.len() - taken),
            }
        }
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let len = u16::try_from(body.len()).unwrap().to_be_bytes();
        [V2, &[0x20 | command, family], &len, body].concat()
    }

    fn client(text: &str) -> Result<ProxyHeader, ProxyHeaderError> {
        Ok(ProxyHeader::Client(text.parse().unwrap()))
    }

    #[test]
    fn the_named_client_is_read_and_nothing_behind_it() {
        for (line, expected) in [
            (
                "PROXY TCP4 203.0.113.9 192.0.2.1 4711 26680\r\n",
                client("203.0.113.9"),
            ),
            (
                "PROXY TCP6 2001:db8::9 2001:db8::1 4711 26680\r\n",
                client("2001:db8::9"),
            ),
            ("PROXY UNKNOWN\r\n", Ok(ProxyHeader::Local)),
            (
                "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n",
                Ok(ProxyHeader::Local),
            ),
        ] {
            assert_eq!(
                read(format!("{line}GET").as_bytes()),
                (expected, 3),
                "{line}"
            );
        }
        let v4 = [203, 0, 113, 9, 192, 0, 2, 1, 0, 1, 0, 2];
        let with_more = [&v4[..], &[4, 0, 1, 42]].concat();
        let mut v6 = [0; 36];
        (v6[0], v6[1], v6[15]) = (0x20, 1, 9);
        for (bytes, expected) in [
            (v2(1, 0x11, &v4), client("203.0.113.9")),
            (v2(1, 0x11, &with_more), client("203.0.113.9")),
            (v2(1, 0x21, &v6), client("2001::9")),
            // A health check of the proxy's own.
            (v2(0, 0x00, &[]), Ok(ProxyHeader::Local)),
            (v2(0, 0x11, &v4), Ok(ProxyHeader::Local)),
            (v2(1, 0x31, &[0; 216]), Ok(ProxyHeader::Local)),
        ] {
            assert_eq!(read(&[&bytes[..], b"GET"].concat()), (expected, 3));
        }
    }

    #[test]
    fn what_is_no_header_is_refused_as_early_as_it_shows() {
        for bytes in ["GET / HTTP/1.1\r\n\r\n", "PROXX", "\r\n\r\n\r", "x"] {
            let found = read_proxy_header(bytes.as_bytes());
            assert_eq!(found, Err(ProxyHeaderError::Missing), "{bytes:?}");
        }
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_LINE_BYTES));
        assert_eq!(
            read(long.as_bytes()).0,
            Err(ProxyHeaderError::TooLong(MAX_LINE_BYTES))
        );
        let long = v2(1, 0x11, &vec![0; MAX_HEADER_BYTES]);
        assert_eq!(
            read(&long),
            (
                Err(ProxyHeaderError::TooLong(MAX_HEADER_BYTES)),
                MAX_HEADER_BYTES
            )
        );
        let malformed = |bytes: &[u8]| {
            let found = read(bytes).0;
            assert!(
                matches!(found, Err(ProxyHeaderError::Malformed(_))),
                "{found:?}"
            );
        };
        malformed(b"PROXY TCP4 256.0.0.1 192.0.2.1 1 2\r\n");
        malformed(b"PROXY TCP4 203.0.113.9 192.0.2.1 1 2\n");
        malformed(b"PROXY TCP5 203.0.113.9 192.0.2.1 1 2\r\n");
        malformed(b"PROXY TCP4 203.0.113.9\r\n");
        malformed(&v2(1, 0x11, &[0; 5]));
        malformed(&v2(7, 0x11, &[0; 12]));
        malformed(&[V2, &[0x11, 0x11, 0, 0]].concat());
    }
}
