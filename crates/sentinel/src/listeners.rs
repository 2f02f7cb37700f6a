//! The sockets on which the program listens: opened, passed by a service manager, or taken over from another process.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};

use tokio::net::TcpListener;

use crate::config::Config;
use crate::handover::NamedListeners;

/// What to do about a listener that cannot be opened.
fn advice(error: &io::Error, setting: &str) -> String {
    let flag = setting.trim_end_matches(".addr");
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            ": another program listens there, perhaps another sentinel (ss -ltnp names it); end it, or choose another \
             address with --{flag}"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!(": this machine has no such address; choose another with --{flag}")
        }
        _ => String::new(),
    }
}

/// Why a listener could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A listener could not be opened.
    #[error("cannot listen on {address} ({setting}){}", advice(source, setting))]
    Listen {
        /// The setting that named it.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The service manager has opened more sockets than there are listeners.
    #[error(
        "the service manager passed {passed} sockets, and {wanted} are wanted: the clients' and, unless \
         admin.addr is off, the operator's"
    )]
    Passed {
        /// How many came.
        passed: usize,
        /// How many there is a use for.
        wanted: usize,
    },
    /// The system gives no socket.
    #[error("the system refuses")]
    System(#[source] io::Error),
}

/// The sockets that wait for clients and for the operator.
#[derive(Debug)]
pub struct Listeners {
    /// For clients.
    pub front: TcpListener,
    /// For the operator, if there is one.
    pub admin: Option<TcpListener>,
    /// For clients of gRPC, if they are served.
    pub grpc: Option<TcpListener>,
    /// For clients of REST, if they are served.
    pub rest: Option<TcpListener>,
}

impl Listeners {
    /// Opens the configured listeners; port 0 lets the system choose.
    ///
    /// # Errors
    /// An address that is taken or not ours, named.
    pub async fn bind(config: &Config) -> Result<Self, ListenError> {
        Self::inherit(Vec::new(), config).await
    }

    /// Takes sockets that a service manager has opened, first the clients', then the operator's, those of gRPC and of REST, and
    /// opens the configured ones in place of those that were not passed.
    ///
    /// # Errors
    /// An address that is taken or not ours, named; more sockets than there are listeners.
    pub async fn inherit(
        passed: Vec<std::net::TcpListener>,
        config: &Config,
    ) -> Result<Self, ListenError> {
        let others = [config.admin.addr, config.grpc.listen, config.rest.listen];
        let (mut passed, wanted) = (passed.into_iter(), 1 + others.iter().flatten().count());
        if passed.len() > wanted {
            let passed = passed.len();
            return Err(ListenError::Passed { passed, wanted });
        }
        Self::open(config, |_, _| passed.next()).await
    }

    /// Sockets of another process of the same names; the configured ones are opened in place of those that are not among
    /// them, or listen elsewhere.
    ///
    /// # Errors
    /// An address that is taken or not ours, named.
    pub async fn replace(passed: NamedListeners, config: &Config) -> Result<Self, ListenError> {
        let mut passed: Vec<(String, std::net::TcpListener)> = passed;
        let next = |setting: &'static str, wanted: SocketAddr| {
            let fits = |(name, listener): &(String, std::net::TcpListener)| {
                let address = listener.local_addr();
                let is_there =
                    |at: SocketAddr| at == wanted || wanted.port() == 0 && at.ip() == wanted.ip();
                name == setting && address.is_ok_and(is_there)
            };
            let place = passed.iter().position(fits)?;
            Some(passed.swap_remove(place).1)
        };
        Self::open(config, next).await
    }

    /// Opens each listener that the configuration has, unless one was passed for it.
    async fn open(
        config: &Config,
        mut passed: impl FnMut(&'static str, SocketAddr) -> Option<std::net::TcpListener>,
    ) -> Result<Self, ListenError> {
        let mut next = async |setting, address| match passed(setting, address) {
            Some(listener) => TcpListener::from_std(listener).map_err(ListenError::System),
            None => {
                let listening = TcpListener::bind(address).await;
                listening.map_err(|source| ListenError::Listen {
                    setting,
                    address,
                    source,
                })
            }
        };
        let front = next(FRONT, config.listen.addr).await?;
        let mut maybe = async |setting, address| match address {
            Some(address) => next(setting, address).await.map(Some),
            None => Ok(None),
        };
        Ok(Self {
            front,
            admin: maybe(ADMIN, config.admin.addr).await?,
            grpc: maybe(GRPC_LISTEN, config.grpc.listen).await?,
            rest: maybe(REST_LISTEN, config.rest.listen).await?,
        })
    }

    /// The same sockets by the keys of their addresses, for another process.
    pub(crate) fn copies(&self) -> Result<Vec<(&'static str, OwnedFd)>, ListenError> {
        let named = [
            (FRONT, Some(&self.front)),
            (ADMIN, self.admin.as_ref()),
            (GRPC_LISTEN, self.grpc.as_ref()),
            (REST_LISTEN, self.rest.as_ref()),
        ];
        let open = named
            .into_iter()
            .filter_map(|(name, listener)| Some((name, listener?)));
        open.map(|(name, listener)| {
            let copy = listener.as_fd().try_clone_to_owned();
            Ok((name, copy.map_err(ListenError::System)?))
        })
        .collect()
    }

    /// Where clients connect.
    ///
    /// # Errors
    /// The system returns no address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.front.local_addr()
    }
}

const FRONT: &str = "listen.addr";
const ADMIN: &str = "admin.addr";
const GRPC_LISTEN: &str = "grpc.listen";
const REST_LISTEN: &str = "rest.listen";
