//! The crate against scripted servers.

// Helpers outside of test functions fail a test by panicking as well.
#![allow(clippy::unwrap_used, unreachable_pub)]

mod http;
mod peer;
mod tls;
mod websocket;

use std::net::{IpAddr, Ipv4Addr, TcpListener};

use rpc::{Connection, ConnectionError, ConnectionOptions, Endpoint};

fn open(source: IpAddr) -> (TcpListener, Result<Connection, ConnectionError>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint: Endpoint = format!("http://{address}").parse().unwrap();
    let options = ConnectionOptions {
        source: Some(source),
        ..ConnectionOptions::default()
    };
    (listener, Connection::open(&endpoint, address, &options))
}

#[test]
fn the_node_sees_the_chosen_address() {
    let source = IpAddr::from([127, 0, 0, 9]);
    let (listener, connection) = open(source);
    let _connection = connection.unwrap();
    let (_, peer) = listener.accept().unwrap();
    assert_eq!(peer.ip(), source);
}

#[test]
fn an_address_that_is_not_ours_is_named() {
    let (_listener, connection) = open(IpAddr::from([192, 0, 2, 1]));
    let error = connection.unwrap_err();
    assert!(matches!(error, ConnectionError::Connect(_)));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("192.0.2.1"), "{source}");
}
