//! Whose a connection is that a proxy in TCP mode has passed on: the first thing on it is a PROXY header.

use std::io;
use std::net::IpAddr;

use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use wire::proxy::{ProxyHeader, ProxyHeaderError, read_proxy_header};

use super::Shared;
use super::backend::Backend;
use super::socket::Stream;
use crate::refusal::{Reason, Refusal};

/// The client of a connection from `address`, whose header is read, and nothing behind it. None if it is to be closed:
/// no header came in time, or something else. Until then it counts as one of a trusted proxy's.
///
/// # Cancel safety
/// Bytes of the header are lost: the connection is of no use any more.
pub(super) async fn client<B: Backend, IO: Stream>(
    front: &Shared<B>,
    stream: &mut IO,
    address: IpAddr,
) -> Option<IpAddr> {
    let refuse = |refusal: &Refusal| {
        let proxy = front.identities.load().of_peer(address).client;
        front.refused(proxy, refusal);
    };
    let _slot = match front.budget.connect_proxy() {
        Ok(slot) => slot,
        Err(refusal) => {
            refuse(&refusal);
            return None;
        }
    };
    let header = timeout(front.config.load().fixed.header_timeout, header(stream));
    let header = tokio::select! {
        biased;
        header = header => header,
        () = front.stop.cancelled() => return None,
    };
    match header {
        Ok(Ok(Some(client))) => Some(client.to_canonical()),
        Ok(Ok(None)) => Some(address),
        // A proxy that looks whether somebody listens closes the connection at once.
        Ok(Err(HeaderError::Closed(_))) => None,
        Ok(Err(HeaderError::Header(error))) => {
            refuse(&Refusal::new(Reason::Parse, error.to_string()));
            None
        }
        Err(_) => {
            let text = "the PROXY header did not come in time";
            refuse(&Refusal::new(Reason::Parse, text));
            None
        }
    }
}

/// Why there is no header.
#[derive(Debug, thiserror::Error)]
enum HeaderError {
    #[error("the connection ended")]
    Closed(#[from] io::Error),
    #[error(transparent)]
    Header(#[from] ProxyHeaderError),
}

/// The client that the header names, if it names one.
async fn header<IO: Stream>(stream: &mut IO) -> Result<Option<IpAddr>, HeaderError> {
    let mut bytes = Vec::new();
    loop {
        match read_proxy_header(&bytes)? {
            ProxyHeader::Client(client) => return Ok(Some(client)),
            ProxyHeader::Local => return Ok(None),
            ProxyHeader::More(more) => {
                let known = bytes.len();
                bytes.resize(known + more, 0);
                let mut read = known;
                while read < bytes.len() {
                    // What is no header shows before its length is there.
                    match stream.read(&mut bytes[read..]).await? {
                        0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                        count => read += count,
                    }
                    read_proxy_header(&bytes[..read])?;
                }
            }
        }
    }
}
