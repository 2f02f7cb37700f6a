//! Bytes to and from the node: plain TCP or TLS, never blocking.

use std::io::{self, ErrorKind, IoSliceMut, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt as options};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::error::ConnectionError;

pub(super) enum Stream {
    Plain(TcpStream),
    Stamped(Stamped),
    Tls(Box<Tls>),
}

/// A plain stream whose bytes the system stamps when they arrive (`SO_TIMESTAMPNS`).
pub(super) struct Stamped {
    tcp: TcpStream,
    /// Room for the stamp of a read.
    control: Vec<u8>,
    arrived_unix_ns: Option<u64>,
}

pub(super) struct Tls {
    tcp: TcpStream,
    session: ClientConnection,
}

/// What became of the bytes of a write.
pub(super) struct Written {
    /// Bytes that need not be offered again.
    pub(super) taken: usize,
    /// Whether all of them reached the socket (TLS may hold some back).
    pub(super) handed: bool,
}

/// Has the system ask an idle peer whether it is there, and end the connection a minute after it no longer is: reqwest's
/// defaults. gRPC's own pings are no substitute, as a node's server ends connections that send them when idle, or more
/// often than every five minutes (`keepalive.EnforcementPolicy` of grpc-go).
///
/// # Errors
/// The system takes no such option.
pub fn keep_alive(tcp: &impl AsFd) -> io::Result<()> {
    options::set_socket_keepalive(tcp, true)?;
    options::set_tcp_keepidle(tcp, KEEP_ALIVE)?;
    options::set_tcp_keepintvl(tcp, KEEP_ALIVE)?;
    Ok(options::set_tcp_keepcnt(tcp, KEEP_ALIVE_PROBES)?)
}

const KEEP_ALIVE: Duration = Duration::from_secs(15);
const KEEP_ALIVE_PROBES: u32 = 3;

/// Starts a connect that does not block, from `source` if one is given.
pub(super) fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    let tcp = TcpStream::from(socket);
    // A request is one write: nothing is gained by waiting for more bytes.
    tcp.set_nodelay(true)?;
    keep_alive(&tcp)?;
    if let Some(source) = source {
        let named = |error| io::Error::other(format!("cannot connect from {source}: {error}"));
        rustix::net::bind(&tcp, &SocketAddr::new(source, 0)).map_err(named)?;
    }
    match rustix::net::connect(&tcp, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(tcp),
        Err(error) => Err(error.into()),
    }
}

impl Stream {
    pub(super) fn secure(
        tcp: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, ConnectionError> {
        let mut session = ClientConnection::new(config, name).map_err(ConnectionError::Tls)?;
        session.set_buffer_limit(Some(TLS_BUFFER));
        Ok(Self::Tls(Box::new(Tls { tcp, session })))
    }

    /// A plain stream with stamps, if the system gives any.
    pub(super) fn stamped(tcp: TcpStream) -> Self {
        match setsockopt(&tcp, sockopt::ReceiveTimestampns, &true) {
            Ok(()) => Self::Stamped(Stamped {
                tcp,
                control: cmsg_space!(TimeSpec),
                arrived_unix_ns: None,
            }),
            Err(_) => Self::Plain(tcp),
        }
    }

    /// When the last bytes of the last read arrived.
    #[inline]
    pub(super) const fn arrived_unix_ns(&self) -> Option<u64> {
        match self {
            Self::Stamped(stamped) => stamped.arrived_unix_ns,
            Self::Plain(_) | Self::Tls(_) => None,
        }
    }

    #[inline]
    pub(super) const fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) | Self::Stamped(Stamped { tcp, .. }) => tcp,
            Self::Tls(tls) => &tls.tcp,
        }
    }

    /// One write; `WouldBlock` is `taken: 0`.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<Written, ConnectionError> {
        match self {
            Self::Plain(tcp) | Self::Stamped(Stamped { tcp, .. }) => {
                match retry(|| tcp.write(bytes)) {
                    Ok(taken) => Ok(Written {
                        taken,
                        handed: true,
                    }),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Written {
                        taken: 0,
                        handed: true,
                    }),
                    Err(error) => Err(ConnectionError::Broken(error)),
                }
            }
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    /// One read; `None` when nothing is there, `Some(0)` at the end.
    #[inline]
    pub(super) fn read(&mut self, space: &mut [u8]) -> Result<Option<usize>, ConnectionError> {
        match self {
            Self::Plain(tcp) => read_some(retry(|| tcp.read(space))),
            Self::Stamped(stamped) => read_some(retry(|| stamped.read(space))),
            Self::Tls(tls) => tls.read(space),
        }
    }

    /// Whether decrypted bytes wait that no readiness of the socket will announce.
    #[inline]
    pub(super) fn holds_plaintext(&mut self) -> bool {
        match self {
            Self::Plain(_) | Self::Stamped(_) => false,
            Self::Tls(tls) => tls.holds_plaintext(),
        }
    }

    pub(super) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether encrypted bytes wait for the socket.
    #[inline]
    pub(super) fn holds_ciphertext(&self) -> bool {
        match self {
            Self::Plain(_) | Self::Stamped(_) => false,
            Self::Tls(tls) => tls.session.wants_write(),
        }
    }

    /// Goes on with the TLS handshake; whether it is done.
    pub(super) fn handshake(&mut self) -> Result<bool, ConnectionError> {
        match self {
            Self::Plain(_) | Self::Stamped(_) => Ok(true),
            Self::Tls(tls) => tls.handshake(),
        }
    }
}

impl Stamped {
    #[inline]
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let parts = &mut [IoSliceMut::new(space)];
        let (fd, flags) = (self.tcp.as_raw_fd(), MsgFlags::empty());
        let read = recvmsg::<()>(fd, parts, Some(&mut self.control), flags)?;
        self.arrived_unix_ns = read.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(at) => {
                let seconds = u64::try_from(at.tv_sec()).ok()?;
                Some(seconds * NANOS_PER_SECOND + at.tv_nsec() as u64)
            }
            _ => None,
        });
        Ok(read.bytes)
    }
}

impl Tls {
    fn write(&mut self, bytes: &[u8]) -> Result<Written, ConnectionError> {
        let mut taken = 0;
        loop {
            let rest = &bytes[taken..];
            let count = self
                .session
                .writer()
                .write(rest)
                .map_err(ConnectionError::Broken)?;
            taken += count;
            if !self.push()? {
                return Ok(Written {
                    taken,
                    handed: false,
                });
            }
            if taken == bytes.len() {
                return Ok(Written {
                    taken,
                    handed: true,
                });
            }
        }
    }

    /// Hands encrypted bytes to the socket; whether all are gone.
    fn push(&mut self) -> Result<bool, ConnectionError> {
        while self.session.wants_write() {
            match retry(|| self.session.write_tls(&mut self.tcp)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(ConnectionError::Broken(error)),
            }
        }
        Ok(true)
    }

    /// Takes encrypted bytes from the socket; `None` when there are none, `Some(0)` at the end.
    fn pull(&mut self) -> Result<Option<usize>, ConnectionError> {
        let count = read_some(retry(|| self.session.read_tls(&mut self.tcp)))?;
        if let Err(error) = self.session.process_new_packets() {
            // Best effort: the other side may be gone, and then the reason is not delivered.
            let _ = self.session.write_tls(&mut self.tcp);
            return Err(ConnectionError::Tls(error));
        }
        Ok(count)
    }

    fn read(&mut self, space: &mut [u8]) -> Result<Option<usize>, ConnectionError> {
        while !self.holds_plaintext() {
            match self.pull()? {
                None => return Ok(None),
                Some(0) => break,
                Some(_) => {}
            }
        }
        // Key updates and session tickets are answered here.
        self.push()?;
        match self.session.reader().read(space) {
            // A bare end of the TCP stream without the TLS goodbye is an end all the same.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Some(0)),
            other => read_some(other),
        }
    }

    fn holds_plaintext(&mut self) -> bool {
        use io::BufRead;
        self.session
            .reader()
            .fill_buf()
            .is_ok_and(|bytes| !bytes.is_empty())
    }

    fn handshake(&mut self) -> Result<bool, ConnectionError> {
        loop {
            let pushed = self.push()?;
            if !self.session.is_handshaking() {
                return Ok(true);
            }
            if !pushed {
                return Ok(false);
            }
            match self.pull()? {
                None => return Ok(false),
                Some(0) => return Err(ConnectionError::Closed { mid_message: false }),
                Some(_) => {}
            }
        }
    }
}

#[inline]
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

#[inline]
fn read_some(result: io::Result<usize>) -> Result<Option<usize>, ConnectionError> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(ConnectionError::Broken(error)),
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// Plaintext that TLS may hold before it pushes back.
const TLS_BUFFER: usize = 64 << 10;
