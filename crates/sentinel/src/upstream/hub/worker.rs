//! The task that asks nodes for what clients subscribe to, and hands their events out.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use wire::json::write::internal_error;

use super::Hub;
use super::feed::{Feed, FeedEnd};
use super::link::Link;

/// Serves a hub: run it.
pub struct HubWorker {
    hub: Hub,
    links: Vec<Link>,
    /// The link that is asked first for news.
    turn: usize,
}

impl HubWorker {
    pub(super) const fn new(hub: Hub) -> Self {
        Self {
            hub,
            links: Vec::new(),
            turn: 0,
        }
    }

    /// Serves until shutdown.
    ///
    /// # Cancel safety
    /// Dropping the future ends all subscriptions.
    pub async fn run(mut self) {
        let changed = Arc::clone(&self.hub.0.changed);
        let shutdown = self.hub.end_of_proxy();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = changed.notified() => self.review(),
                () = poll_fn(|context| self.poll_links(context)) => {}
            }
            self.links.retain(|link| !link.is_empty());
            let links = &self.hub.0.links;
            links.store(self.links.len(), Ordering::Relaxed);
        }
    }

    fn poll_links(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for step in 0..self.links.len() {
            let place = (self.turn + step) % self.links.len();
            if self.links[place].poll(context).is_ready() {
                self.turn = place + 1;
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Ends what nobody reads, and asks for what is new.
    fn review(&mut self) {
        let (mut deserted, mut wanted) = (Vec::new(), Vec::new());
        self.hub.0.board.lock().retain(|_, feed| {
            if feed.is_deserted() {
                deserted.push(Arc::clone(feed));
                return false;
            }
            if feed.ask() {
                wanted.push(Arc::clone(feed));
            }
            true
        });
        for feed in deserted {
            for link in &mut self.links {
                link.unsubscribe(&feed);
            }
        }
        for feed in wanted {
            self.subscribe(feed);
        }
    }

    fn subscribe(&mut self, feed: Arc<Feed>) {
        let (home, query) = (feed.node(), feed.query());
        let mut links = self.links.iter_mut();
        if let Some(link) = links.find(|link| link.has_room(home, query)) {
            return link.subscribe(feed);
        }
        let used = self.links.iter().filter(|link| link.home() == home).count();
        let most = self.hub.0.most_links;
        if used >= most {
            // The node's words, which it would say of connections.
            let text = format!("max_subscription_clients {most} reached");
            let end = FeedEnd::Refused(internal_error(&text).into());
            return self.hub.end(&feed, end);
        }
        let mut link = Link::new(self.hub.clone(), home);
        link.subscribe(feed);
        self.links.push(link);
    }
}
