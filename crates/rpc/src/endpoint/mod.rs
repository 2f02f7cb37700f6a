//! The address of a node's RPC as people write it, parsed once.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Why a text is no endpoint or no transport; the message repeats it and shows how to write it instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EndpointError(String);

/// How requests travel to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// HTTP/1.1 with keep-alive: one request at a time on a connection.
    Http,
    /// WebSocket: many requests at a time on a connection, matched by id.
    Ws,
    /// Bitcoin's peer-to-peer protocol: transactions without answers.
    P2p,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Ws => "ws",
            Self::P2p => P2P_SCHEME,
        })
    }
}

impl FromStr for Transport {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "http" => Ok(Self::Http),
            "ws" => Ok(Self::Ws),
            _ => Err(EndpointError(format!(
                "'{text}' is not a transport; use http or ws"
            ))),
        }
    }
}

/// The address of one node: `http`, `https`, `ws` or `wss`, a host, a port and a path; or `bitcoin-p2p`, a host
/// and a port.
///
/// Two endpoints are equal when they mean the same place after normalisation: the host in lower
/// case, the default port (26657, with TLS 443, between Bitcoin nodes 18444) and the default path (`/`, for WebSocket
/// `/websocket`) filled in. Names are not resolved, so `localhost` differs from `127.0.0.1`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    transport: Transport,
    tls: bool,
    host: Host,
    port: u16,
    /// What stands before the RPC's own paths: empty, or `/prefix` behind a gateway.
    base: String,
    /// The path of the WebSocket under `base`; set apart only when the address named another.
    websocket: String,
    /// `user:password`, for nodes that ask for them. Never shown.
    credentials: Option<Credentials>,
}

/// `user:password` of a URL.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Credentials(String);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Host {
    Name(String),
    Address(IpAddr),
}

impl Endpoint {
    /// An unencrypted node at this address, with the default path.
    pub fn of(transport: Transport, address: SocketAddr) -> Self {
        let (base, websocket) = split_path(transport, "");
        Self {
            transport,
            tls: false,
            host: Host::Address(address.ip()),
            port: address.port(),
            base,
            websocket,
            credentials: None,
        }
    }

    /// The same node, asked as this user (HTTP's basic authentication, RFC 7617). Only over http and https.
    #[must_use]
    pub fn with_credentials(self, user: &str, password: &str) -> Self {
        Self {
            credentials: Some(Credentials(format!("{user}:{password}"))),
            ..self
        }
    }

    /// The same service, asked in the same way, on another node.
    pub fn on(&self, address: SocketAddr) -> Self {
        Self {
            host: Host::Address(address.ip()),
            port: address.port(),
            ..self.clone()
        }
    }

    /// The value of the `Authorization` header, if the URL names a user.
    pub fn authorization(&self) -> Option<String> {
        let Credentials(credentials) = self.credentials.as_ref()?;
        let encoded = base64_simd::STANDARD.encode_to_string(credentials);
        Some(format!("Basic {encoded}"))
    }

    /// The host as written in a URL's authority, without port; IPv6 addresses without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        }
    }

    /// The TCP port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether the connection is encrypted (`https`, `wss`).
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// How requests travel.
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// The same node over another transport, on the same host and port.
    pub fn with_transport(&self, transport: Transport) -> Self {
        Self {
            transport,
            ..self.clone()
        }
    }

    /// This port and path on the host of another endpoint.
    #[must_use]
    pub fn on_host_of(self, other: &Self) -> Self {
        Self {
            host: other.host.clone(),
            tls: other.tls,
            ..self
        }
    }

    /// Whether both lead to the same host and port, whatever the transport.
    pub fn same_node(&self, other: &Self) -> bool {
        self.host == other.host && self.port == other.port
    }

    /// The URL for JSON-RPC by POST: `http(s)://host:port/`.
    pub fn http_url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!(
            "{scheme}://{}{}",
            self.authority(),
            self.path_of(Transport::Http)
        )
    }

    /// The URL of the WebSocket: `ws(s)://host:port/websocket`.
    pub fn websocket_url(&self) -> String {
        let scheme = if self.tls { "wss" } else { "ws" };
        format!(
            "{scheme}://{}{}",
            self.authority(),
            self.path_of(Transport::Ws)
        )
    }

    /// `host:port`, IPv6 addresses in brackets; what stands in a `Host` header.
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Name(name) => format!("{name}:{}", self.port),
            Host::Address(address) => SocketAddr::new(*address, self.port).to_string(),
        }
    }

    /// The request path of this endpoint's transport.
    pub fn path(&self) -> String {
        self.path_of(self.transport)
    }

    /// Looks the host up; blocks while the system's resolver works.
    ///
    /// # Errors
    /// The resolver's error, or `NotFound` when the name has no address.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<_> = match &self.host {
            Host::Address(address) => vec![SocketAddr::new(*address, self.port)],
            Host::Name(name) => (name.as_str(), self.port).to_socket_addrs()?.collect(),
        };
        if found.is_empty() {
            let text = format!(
                "the host '{}' has no address; check its spelling",
                self.host()
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(found)
    }

    fn path_of(&self, transport: Transport) -> String {
        match transport {
            Transport::Http | Transport::P2p => format!("{}/", self.base),
            Transport::Ws => format!("{}{}", self.base, self.websocket),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = match self.transport {
            Transport::Http => self.http_url(),
            Transport::Ws => self.websocket_url(),
            Transport::P2p => format!("{P2P_SCHEME}://{}", self.authority()),
        };
        // The lone slash of an address without a path is noise to a reader.
        let bare = self.transport == Transport::Http && self.base.is_empty();
        f.write_str(if bare {
            url.trim_end_matches('/')
        } else {
            &url
        })
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() {
            let example = "http://127.0.0.1:26657";
            let problem = format!("the endpoint is empty; write for example {example}");
            return Err(EndpointError(problem));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(wrong(
                text,
                &format!("has no scheme; write http://{text} or ws://{text}"),
            ));
        };
        let (transport, tls) = parse_scheme(text, scheme)?;
        let (credentials, rest) = split_credentials(transport, rest);
        if let Some(what) = unsupported(rest) {
            return Err(unsupported_part(text, what));
        }
        let (authority, path) = rest
            .find('/')
            .map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = parse_authority(text, authority)?;
        let (base, websocket) = split_path(transport, path);
        if transport == Transport::P2p && !path.trim_end_matches('/').is_empty() {
            let path = "a path, which nodes have none for among themselves";
            return Err(unsupported_part(text, path));
        }
        let port = port.unwrap_or(match transport {
            Transport::P2p => PEER_PORT,
            _ if tls => TLS_PORT,
            _ => RPC_PORT,
        });
        Ok(Self {
            transport,
            tls,
            host,
            port,
            base,
            websocket,
            credentials,
        })
    }
}

/// `user:password` before the host, which only HTTP has a header for.
fn split_credentials(transport: Transport, rest: &str) -> (Option<Credentials>, &str) {
    let authority = rest.find('/').unwrap_or(rest.len());
    match rest[..authority].rsplit_once('@') {
        Some((credentials, host)) if transport == Transport::Http && credentials.contains(':') => {
            let credentials = Credentials(credentials.to_owned());
            (Some(credentials), &rest[authority - host.len()..])
        }
        _ => (None, rest),
    }
}

fn parse_scheme(text: &str, scheme: &str) -> Result<(Transport, bool), EndpointError> {
    match scheme.to_ascii_lowercase().as_str() {
        "http" => Ok((Transport::Http, false)),
        "https" => Ok((Transport::Http, true)),
        "ws" => Ok((Transport::Ws, false)),
        "wss" => Ok((Transport::Ws, true)),
        P2P_SCHEME => Ok((Transport::P2p, false)),
        _ => {
            let known = "use http, https, ws, wss or bitcoin-p2p";
            Err(wrong(text, &format!("has the scheme '{scheme}'; {known}")))
        }
    }
}

fn wrong(text: &str, problem: &str) -> EndpointError {
    EndpointError(format!("endpoint '{text}' {problem}"))
}

fn unsupported_part(text: &str, what: &str) -> EndpointError {
    let problem = format!("contains {what}, which is not supported; leave it out");
    wrong(text, &problem)
}

fn unsupported(rest: &str) -> Option<&'static str> {
    if rest.contains('?') {
        Some("a query ('?')")
    } else if rest.contains('#') {
        Some("a fragment ('#')")
    } else if rest.contains('@') {
        Some("a user name ('@') without ':' and a password, or over WebSocket")
    } else if rest.bytes().any(|byte| !byte.is_ascii_graphic()) {
        Some("a space, a control character or a character outside ASCII")
    } else {
        None
    }
}

fn parse_authority(text: &str, authority: &str) -> Result<(Host, Option<u16>), EndpointError> {
    let (host, port) = split_port(text, authority)?;
    let port = match port {
        None => None,
        Some(digits) => Some(parse_port(text, digits)?),
    };
    Ok((host, port))
}

fn split_port<'a>(
    text: &str,
    authority: &'a str,
) -> Result<(Host, Option<&'a str>), EndpointError> {
    let refuse = |reason: &str| wrong(text, &format!("has no usable host: {reason}"));
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (inside, after) = bracketed
            .split_once(']')
            .ok_or_else(|| refuse("the bracket is not closed"))?;
        let address: Ipv6Addr = inside
            .parse()
            .map_err(|_| refuse("the brackets hold no IPv6 address"))?;
        let port = match after.strip_prefix(':') {
            Some(digits) => Some(digits),
            None if after.is_empty() => None,
            None => return Err(refuse("only ':port' may follow the bracket")),
        };
        return Ok((Host::Address(address.into()), port));
    }
    let (name, port) = authority
        .split_once(':')
        .map_or((authority, None), |(name, port)| (name, Some(port)));
    if port.is_some_and(|port| port.contains(':')) {
        return Err(refuse(
            "an IPv6 address needs brackets, as in http://[::1]:26657",
        ));
    }
    if name.is_empty() {
        return Err(refuse("it is empty"));
    }
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok((Host::Address(address), port));
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    {
        return Err(refuse(
            "only letters, digits, '-', '.' and '_' may be part of a name",
        ));
    }
    Ok((Host::Name(name.to_ascii_lowercase()), port))
}

fn parse_port(text: &str, digits: &str) -> Result<u16, EndpointError> {
    let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| are_digits && *port != 0);
    let problem = || format!("has the port '{digits}'; use a number from 1 to 65535");
    port.ok_or_else(|| wrong(text, &problem()))
}

fn split_path(transport: Transport, path: &str) -> (String, String) {
    let path = path.trim_end_matches('/');
    let default = WEBSOCKET_PATH.to_owned();
    match (transport, path.strip_suffix(WEBSOCKET_PATH)) {
        (_, Some(base)) => (base.to_owned(), default),
        (Transport::Http | Transport::P2p, None) => (path.to_owned(), default),
        (Transport::Ws, None) if path.is_empty() => (String::new(), default),
        (Transport::Ws, None) => (String::new(), path.to_owned()),
    }
}

/// CometBFT's RPC port (`rpc.laddr` in its default configuration).
const RPC_PORT: u16 = 26657;
const TLS_PORT: u16 = 443;
/// Where nodes of Bitcoin's regression-test network listen for one another.
const PEER_PORT: u16 = 18444;
/// The scheme of nodes among themselves.
const P2P_SCHEME: &str = "bitcoin-p2p";
/// Where CometBFT serves its WebSocket.
const WEBSOCKET_PATH: &str = "/websocket";

#[cfg(test)]
mod tests;
