//! The operator's listener: metrics, health, and what happens to whom.
//!
//! It only shows; nothing can be changed through it. It has no authentication and names clients, so
//! it belongs on loopback or on a network that clients cannot reach.

mod operator_page;
mod pages;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ops::listener::{self, Bounds};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::clock::Clock;
use crate::metrics::{Gauges, Metrics};
use crate::overview::{Event, Keeper, Moment};
use crate::views::{ClientsView, Explanation, Readiness};

/// What the listener shows. Called once per request, so a
/// short lock is fine and a long walk is not.
pub trait Inspect: Send + Sync + 'static {
    /// Whether clients should be sent here.
    fn readiness(&self) -> Readiness;

    /// The `top` clients with the longest queues, longest first, and how many there are.
    fn clients(&self, top: usize) -> ClientsView;

    /// What is known about the client with this address.
    fn explain(&self, address: IpAddr) -> Explanation;

    /// The state of the program in numbers.
    fn gauges(&self) -> Gauges;

    /// The same with what was counted, for the overview.
    fn moment(&self) -> Moment;

    /// The last lines of the log, latest first.
    fn events(&self) -> Vec<Event>;
}

/// Serves the operator until `shutdown`; then open connections finish the answer they are at.
///
/// Give it a token that is cancelled last: while the rest drains, `/readyz` must say so.
///
/// # Cancel safety
/// Dropping the future closes all connections.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    inspect: Arc<dyn Inspect>,
    shutdown: CancellationToken,
) {
    if let Ok(address) = listener.local_addr() {
        info!(%address, "serving the operator");
    }
    let shown = Arc::new(Shown {
        metrics,
        inspect,
        kept: Mutex::default(),
    });
    let looking = Arc::clone(&shown);
    let pages = move |request: &_| pages::answer(request, &shown);
    tokio::select! {
        () = listener::serve(listener, Bounds::default(), pages, shutdown) => {}
        () = looking.look_every_second() => {}
    }
}

/// What the pages are made of.
struct Shown {
    metrics: Arc<Metrics>,
    inspect: Arc<dyn Inspect>,
    kept: Mutex<OverviewCache>,
}

/// The overview, made once between two looks however often it is asked for.
#[derive(Default)]
struct OverviewCache {
    keeper: Keeper,
    made: Option<Bytes>,
}

impl Shown {
    async fn look_every_second(&self) {
        let clock = Clock::start();
        let mut next = interval(Duration::from_secs(1));
        next.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            next.tick().await;
            let moment = self.inspect.moment();
            let clients = self.inspect.clients(LISTED_CLIENTS).clients;
            let mut kept = self.kept.lock();
            kept.keeper.look(clock.now(), moment, clients);
            kept.made = None;
        }
    }

    /// The overview as JSON.
    fn overview(&self) -> Bytes {
        let mut kept = self.kept.lock();
        if let Some(made) = &kept.made {
            return made.clone();
        }
        let (readiness, events) = (self.inspect.readiness(), self.inspect.events());
        let overview = kept.keeper.overview(&readiness, events);
        let made = Bytes::from(serde_json::to_vec(&overview).expect("text keys only"));
        kept.made.insert(made).clone()
    }
}

/// Clients on the page.
const LISTED_CLIENTS: usize = 20;
