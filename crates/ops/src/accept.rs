//! Takes connections from a listener, also while file descriptors or memory are short.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

/// Where connections come from.
pub trait Accept {
    /// What a connection is.
    type Stream;

    /// The next connection.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        Self::accept(self).await
    }
}

/// The shortest time after which a listener out of resources is asked again.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Connections taken one after the other before those that are open have their turn: some 0.2 ms.
const AT_ONCE: usize = 4;

/// Accepts connections, and pauses while the process or the machine is out of a resource.
#[derive(Debug)]
pub struct Acceptor<A> {
    from: A,
    pause: Option<Duration>,
    /// Connections taken since others had their turn.
    taken: usize,
}

impl<A: Accept> Acceptor<A> {
    /// Nothing accepted yet.
    pub const fn new(from: A) -> Self {
        Self {
            from,
            pause: None,
            taken: 0,
        }
    }

    /// The next connection, after as many pauses as it takes.
    ///
    /// # Cancel safety
    /// No connection is lost when the future is dropped.
    pub async fn next(&mut self) -> (A::Stream, SocketAddr) {
        if self.taken >= AT_ONCE {
            yield_now().await;
            self.taken = 0;
        }
        loop {
            match self.from.accept().await {
                Ok(connection) => {
                    self.pause = None;
                    self.taken += 1;
                    return connection;
                }
                // The connection was gone before it was taken: the next one may be well.
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => self.pause(&error).await,
            }
        }
    }

    /// Without a pause, a listener with connections waiting and no descriptors left would be asked
    /// again and again at full speed.
    async fn pause(&mut self, error: &io::Error) {
        let pause = match self.pause {
            None => {
                tracing::warn!(%error, "no connection can be accepted, trying again");
                FIRST_PAUSE
            }
            Some(pause) => (pause * 2).min(LONGEST_PAUSE),
        };
        self.pause = Some(pause);
        tokio::time::sleep(pause).await;
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::time::Instant;

    use super::*;

    struct Scripted {
        results: VecDeque<io::Result<u32>>,
        asked: usize,
    }

    impl Accept for Scripted {
        type Stream = u32;

        async fn accept(&mut self) -> io::Result<(u32, SocketAddr)> {
            self.asked += 1;
            let result = self.results.pop_front().unwrap();
            result.map(|number| (number, ([127, 0, 0, 1], 1).into()))
        }
    }

    /// At d94f069 a burst of connections was accepted whole before any other client was read from:
    /// 500 a second, in bursts of 50, tripled the others' p99.
    #[tokio::test(start_paused = true)]
    async fn sharing_64_a_burst_of_connections_lets_others_have_their_turn() {
        let mut acceptor = Acceptor::new(Scripted {
            results: (0..3 * AT_ONCE as u32).map(Ok).collect(),
            asked: 0,
        });
        let turns = std::rc::Rc::new(std::cell::Cell::new(0));
        let others = {
            let turns = std::rc::Rc::clone(&turns);
            async move {
                loop {
                    turns.set(turns.get() + 1);
                    yield_now().await;
                }
            }
        };
        let accept = async {
            let mut before = Vec::new();
            for _ in 0..3 * AT_ONCE {
                acceptor.next().await;
                before.push(turns.get());
            }
            before
        };
        let before = tokio::select! {
            biased;
            before = accept => before,
            () = others => unreachable!(),
        };
        for (number, burst) in before.chunks(AT_ONCE).enumerate() {
            assert_eq!(burst, [number; AT_ONCE]);
        }
    }

    fn emfile() -> io::Error {
        io::Error::from_raw_os_error(24)
    }

    #[tokio::test(start_paused = true)]
    async fn lifecycle_49_without_descriptors_the_loop_rests() {
        let failures = std::iter::repeat_with(|| Err(emfile())).take(60);
        let mut acceptor = Acceptor::new(Scripted {
            results: failures.chain([Ok(7)]).collect(),
            asked: 0,
        });
        let start = Instant::now();
        assert_eq!(acceptor.next().await.0, 7);
        assert_eq!(acceptor.from.asked, 61);
        assert!(start.elapsed() > 50 * LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_was_gone_costs_no_rest() {
        let mut acceptor = Acceptor::new(Scripted {
            results: [
                Err(io::ErrorKind::ConnectionAborted.into()),
                Ok(1),
                Err(emfile()),
                Ok(2),
            ]
            .into(),
            asked: 0,
        });
        let start = Instant::now();
        assert_eq!(acceptor.next().await.0, 1);
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(acceptor.next().await.0, 2);
        assert_eq!(start.elapsed(), FIRST_PAUSE);
    }
}
