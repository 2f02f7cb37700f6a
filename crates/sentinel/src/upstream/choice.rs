//! Which node a read goes to.
//!
//! A client that writes or subscribes reads from the node that takes the writes, so that it finds what it wrote and
//! the blocks it has seen. All others are spread: each has an order of the nodes of its own (rendezvous hashing, Thaler and
//! Ravishankar, 1998) and stays with the first one that can serve it, so that what it reads does not go back and forth.

use std::future::Future;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use fairq::ClientKey;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use pacing::Nanos;
use tokio::sync::OwnedSemaphorePermit;

use super::UpstreamError;
use super::health::{ABSENT, SILENT};
use super::node_state::{NodeDoor, NodeIndex, NodeState};
use super::nodes::Nodes;
use crate::budget::SEEN_FOR;

/// What a read needs of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// The node that takes the writes.
    pub(super) meant: NodeIndex,
    /// The client, if its reads are spread.
    pub(super) spread: Option<ClientKey>,
    /// The height that the client has seen.
    pub(super) seen: u64,
    /// The height that the read asks for.
    pub(super) height: Option<u64>,
    /// A node answers it quickly, or is at fault.
    pub(super) is_light: bool,
    /// Where it is asked.
    pub(super) door: NodeDoor,
    /// Nodes that were asked, or have no such listener.
    pub(super) tried: Vec<NodeIndex>,
}

impl Wanted {
    /// From this node, if it can serve.
    pub(super) fn of(meant: NodeIndex) -> Self {
        Self {
            meant,
            ..Self::default()
        }
    }
}

/// How well a node serves reads, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Good,
    /// The operator wants it left alone.
    Drained,
    CatchingUp,
    /// It may be executing a block, or answers no reads.
    Silent,
    /// It is not the node that it should be, or nothing is known of it.
    Down,
}

impl Standing {
    /// None of a node that is not asked at all.
    fn of(node: &NodeState, door: NodeDoor, now: Nanos) -> Option<Self> {
        if node.unreachable || node.is_silent_for(ABSENT, now) {
            return None;
        }
        Some(if !node.up {
            Self::Down
        } else if node.is_silent_for(SILENT, now) || node.breakers[door as usize].is_resting(now) {
            Self::Silent
        } else if node.catching_up {
            Self::CatchingUp
        } else if node.is_drained(now) {
            Self::Drained
        } else {
            Self::Good
        })
    }
}

impl Nodes {
    /// The node that a read goes to; none while no node is asked for anything but its health, or none has the height
    /// that the client has seen.
    pub(super) fn reading(&self, wanted: &Wanted) -> Option<NodeIndex> {
        self.reading_at(wanted, self.now())
    }

    fn reading_at(&self, wanted: &Wanted, now: Nanos) -> Option<NodeIndex> {
        let is_alone = self.count() == 1;
        let seen = wanted.seen.max(match wanted.spread {
            None if !is_alone => self.lost_height(now),
            _ => 0,
        });
        let ranks = (0..self.count()).filter_map(|node| {
            let state = self.node(node).state();
            let standing = Standing::of(&state, wanted.door, now)?;
            let is_meant = node == wanted.meant;
            let too_low = !is_alone && state.height < seen;
            if too_low || standing == Standing::Down && !is_meant || wanted.tried.contains(&node) {
                return None;
            }
            let has = |height: u64| (state.lowest..=state.height).contains(&height);
            let lacks_height = wanted.height.is_some_and(|height| !has(height));
            let place = match wanted.spread {
                Some(client) => self.place(client, node),
                None => u64::from(!is_meant),
            };
            Some(((standing, lacks_height, place), node))
        });
        ranks.min().map(|(_, node)| node)
    }

    /// The height of a node that is gone: clients that got events of its blocks have seen it.
    fn lost_height(&self, now: Nanos) -> u64 {
        let lost = (0..self.count()).filter_map(|node| {
            let state = self.node(node).state();
            let is_recent = now.saturating_sub(state.risen_at) < SEEN_FOR;
            let is_gone =
                Standing::of(&state, NodeDoor::Rpc, now).is_none_or(|how| how >= Standing::Silent);
            (is_gone && is_recent).then_some(state.height)
        });
        lost.max().unwrap_or(0)
    }

    /// Waits until a read that was sent to a node should be asked of another one, which serves: the node has fallen silent,
    /// or the read is light and the node answers none, or has answered none for longer than usual. As nodes execute a block at the
    /// same time, few of the last kind are under way at a time.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn another(
        &self,
        (node, sent): (NodeIndex, Nanos),
        wanted: &Wanted,
    ) -> (NodeIndex, Option<OwnedSemaphorePermit>) {
        let mut wait = LOOK_INTERVAL;
        loop {
            if wanted.is_light {
                let state = self.node(node).state();
                let late_in = state.breakers[wanted.door as usize].late_in(sent, self.now());
                wait = wait.min(Duration::from(late_in).max(LEAST_WAIT));
            }
            tokio::time::sleep(wait).await;
            wait = LOOK_INTERVAL;
            let now = self.now();
            let (is_gone, is_late) = {
                let state = self.node(node).state();
                let breaker = &state.breakers[wanted.door as usize];
                let is_resting = wanted.is_light && breaker.is_resting(now);
                let is_late = wanted.is_light && breaker.late_in(sent, now) == Nanos::ZERO;
                (state.is_silent_for(SILENT, now) || is_resting, is_late)
            };
            let second = (is_late && !is_gone)
                .then(|| self.second_attempt())
                .flatten();
            if (is_gone || second.is_some())
                && let Some(other) = self.reading(wanted)
                && self.serves(other, wanted.door)
            {
                return (other, second);
            }
        }
    }

    fn serves(&self, node: NodeIndex, door: NodeDoor) -> bool {
        Standing::of(&self.node(node).state(), door, self.now()) == Some(Standing::Good)
    }

    /// Whether a node owes an answer while the chain goes on without it: it does not execute a block then, as the
    /// others would do that too.
    pub(super) fn is_left_behind(&self, node: NodeIndex, now: Nanos) -> bool {
        let behind = {
            let state = self.node(node).state();
            if !state.is_silent_for(LEFT_AFTER, now) {
                return false;
            }
            state.height.saturating_add(LEFT_BLOCKS)
        };
        let mut others = (0..self.count()).filter(|other| *other != node);
        others.any(|other| {
            let state = self.node(other).state();
            let serves = Standing::of(&state, NodeDoor::Rpc, now) == Some(Standing::Good);
            serves && state.height >= behind
        })
    }

    /// The place of a node in a client's order. Clients cannot choose it.
    fn place(&self, client: ClientKey, node: NodeIndex) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.shared_context().seed, client, node).hash(&mut hasher);
        hasher.finish()
    }
}

/// How a question may be asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuestionKind {
    /// It may be carried out twice.
    pub(super) may_repeat: bool,
    /// Its outcome shows the health of the node.
    pub(super) counts: bool,
}

/// The first answer that a node gives, which one did, and how long it took. Each node is asked once: another one while
/// the one before may still answer, if that is late or silent, and instead of it, where it cannot have been slow
/// because of the question.
pub(super) async fn first_answer<T, F: Future<Output = Result<T, UpstreamError>>>(
    nodes: &Nodes,
    (first, mut wanted): (NodeIndex, Wanted),
    kind: QuestionKind,
    ask: impl Fn(NodeIndex) -> Result<F, UpstreamError>,
) -> Result<(NodeIndex, Duration, T), UpstreamError> {
    let (door, may_move) = (wanted.door, kind.may_repeat && nodes.count() > 1);
    let mut under_way = FuturesUnordered::new();
    let mut last = (first, Nanos::ZERO);
    let mut next = Some((first, None));
    loop {
        if let Some((node, second)) = next.take() {
            let sent = nodes.note_sent(node, door, kind.counts);
            wanted.tried.push(node);
            last = (node, sent);
            let asking = ask(node)?;
            under_way.push(async move {
                let answer = asking.await;
                drop(second);
                (node, sent, answer)
            });
        }
        tokio::select! {
            biased;
            Some((node, sent, answer)) = under_way.next() => match answer {
                Ok(answer) => {
                    let took = nodes.note_answered((node, wanted.door), sent, wanted.is_light);
                    return Ok((node, took.into(), answer));
                }
                Err(error) => {
                    let is_unsent = error.is_unsent();
                    if is_unsent && door == NodeDoor::Rpc {
                        nodes.note_unreachable(node);
                    }
                    let was_quick = nodes.now().saturating_sub(sent) < SILENT;
                    let broke = matches!(error, UpstreamError::Broken(..));
                    if is_unsent || may_move && broke && was_quick {
                        next = nodes.reading(&wanted).map(|node| (node, None));
                    }
                    if next.is_none() && under_way.is_empty() {
                        return Err(error);
                    }
                }
            },
            another = nodes.another(last, &wanted), if may_move => next = Some(another),
        }
    }
}

/// How often a read under way looks whether its node has fallen silent: an eighth of [`SILENT`].
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// How soon it looks again for a read that is late, at the earliest.
const LEAST_WAIT: Duration = Duration::from_millis(25);
/// A node that is gone without closing its connections has owed an answer for up to a second less than it is gone
/// (`health_interval`): writes leave it within two.
const LEFT_AFTER: Nanos = Nanos::from_secs(1);
/// A node may be one block behind the others at any time.
const LEFT_BLOCKS: u64 = 2;

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::super::health::Breaker;
    use super::super::tests::{client, config};
    use super::*;
    use crate::shared_context::SharedContext;

    const NOW: Nanos = Nanos::from_secs(100);

    /// Three nodes that are up, at height 50, with blocks from 1.
    fn nodes(change: impl FnOnce([&mut NodeState; 3])) -> Nodes {
        let urls = [1, 2, 3].map(|port| format!("http://127.0.0.1:{port}"));
        let context = SharedContext::new(config(&urls), CancellationToken::new());
        let nodes = Nodes::new(context).unwrap();
        let mut states = [0, 1, 2].map(|node| nodes.node(node).state());
        for state in &mut states {
            (state.up, state.lowest, state.height) = (true, 1, 50);
            state.risen_at = NOW;
        }
        change(states.each_mut().map(|state| &mut **state));
        drop(states);
        nodes
    }

    fn spread(last: u8) -> Wanted {
        Wanted {
            spread: Some(client(last)),
            ..Wanted::of(0)
        }
    }

    /// The nodes of a hundred clients whose reads are spread.
    fn all(nodes: &Nodes) -> Vec<Option<NodeIndex>> {
        let clients = 1..=100;
        let found = clients.map(|last| nodes.reading_at(&spread(last), NOW));
        found.collect()
    }

    #[test]
    fn each_client_has_a_node_of_its_own_and_only_those_of_one_that_is_gone_move() {
        let nodes = nodes(|_| ());
        let before = all(&nodes);
        for node in 0..3 {
            let share = before.iter().filter(|found| **found == Some(node)).count();
            assert!((15..=55).contains(&share), "{share} of node {node}");
        }
        assert_eq!(all(&nodes), before);
        nodes.node(1).state().up = false;
        for (was, is) in before.into_iter().zip(all(&nodes)) {
            match was {
                Some(1) => assert!(matches!(is, Some(0 | 2))),
                other => assert_eq!(is, other),
            }
        }
    }

    #[test]
    fn one_that_writes_stays_with_the_node_of_the_writes_while_that_serves() {
        type Fault = fn(&mut NodeState);
        for fault in [
            (|node| node.up = false) as Fault,
            |node| node.catching_up = true,
            |node| node.unreachable = true,
            |node| node.drained = Some((Nanos::MAX, String::new())),
            |node| node.unanswered_since = Some(NOW.saturating_sub(SILENT)),
        ] {
            let nodes = nodes(|_| ());
            assert_eq!(nodes.reading_at(&Wanted::of(1), NOW), Some(1));
            fault(&mut nodes.node(1).state());
            assert_eq!(nodes.reading_at(&Wanted::of(1), NOW), Some(0));
        }
    }

    #[test]
    fn nobody_reads_below_the_height_that_it_has_seen() {
        let nodes = nodes(|[_, second, _]| second.height = 49);
        let wanted = |last, seen| Wanted {
            seen,
            ..spread(last)
        };
        let found = |seen| (1..=100).map(move |last| wanted(last, seen));
        assert!(found(49).any(|wanted| nodes.reading_at(&wanted, NOW) == Some(1)));
        assert!(found(50).all(|wanted| matches!(nodes.reading_at(&wanted, NOW), Some(0 | 2))));
        assert!(found(51).all(|wanted| nodes.reading_at(&wanted, NOW).is_none()));
        // A client that stays has got events of its node's blocks.
        nodes.node(0).state().up = false;
        nodes.node(2).state().up = false;
        assert_eq!(nodes.reading_at(&Wanted::of(1), NOW), None);
        let later = NOW.saturating_add(SEEN_FOR);
        assert_eq!(nodes.reading_at(&Wanted::of(1), later), Some(1));
    }

    /// The questions about its health are answered, so nothing else shows it.
    #[test]
    fn a_node_that_answers_no_reads_is_asked_after_others_and_never_refused() {
        let rests = |node: &mut NodeState| {
            let long_ago = NOW.saturating_sub(SILENT);
            let breaker = &mut node.breakers[0];
            (0..10).for_each(|_| _ = breaker.sent(long_ago));
            assert!(breaker.sent(NOW));
        };
        let nodes = nodes(|[first, ..]| rests(first));
        assert_eq!(nodes.reading_at(&Wanted::of(0), NOW), Some(1));
        assert!(all(&nodes).iter().all(|found| matches!(found, Some(1 | 2))));
        // The others are behind what a client has seen, or rest too.
        nodes.node(1).state().height = 49;
        rests(&mut nodes.node(2).state());
        let seen = Wanted {
            seen: 50,
            ..Wanted::of(0)
        };
        assert_eq!(nodes.reading_at(&seen, NOW), Some(0));
        rests(&mut nodes.node(1).state());
        assert!(all(&nodes).iter().all(Option::is_some));
        // After the rest it is tried.
        nodes.node(2).state().breakers[0] = Breaker::default();
        let later = NOW.saturating_add(SILENT);
        assert_eq!(nodes.reading_at(&Wanted::of(0), later), Some(0));
    }

    #[test]
    fn a_height_is_asked_of_a_node_that_has_it() {
        let nodes = nodes(|[first, second, third]| {
            (first.lowest, second.lowest, third.height) = (40, 30, 60);
        });
        let found = |height| {
            let wanted = Wanted {
                height: Some(height),
                ..Wanted::of(0)
            };
            nodes.reading_at(&wanted, NOW)
        };
        assert_eq!([45, 35, 29, 55].map(found), [0, 1, 2, 2].map(Some));
        // No node has it: the client's own node reports that.
        assert_eq!(found(61), Some(0));
    }

    #[test]
    fn a_node_that_cannot_be_reached_or_is_silent_for_long_is_not_asked() {
        let nodes = nodes(|states| states.into_iter().for_each(|node| node.unreachable = true));
        assert_eq!(nodes.reading_at(&Wanted::of(1), NOW), None);
        for node in 0..3 {
            let mut state = nodes.node(node).state();
            state.unreachable = false;
            state.unanswered_since = Some(NOW.saturating_sub(ABSENT));
        }
        assert_eq!(nodes.reading_at(&Wanted::of(1), NOW), None);
        // One whose health is unknown is asked if it is meant.
        let unknown = NodeState::default();
        *nodes.node(2).state() = unknown;
        let later = NOW.saturating_add(SEEN_FOR);
        assert_eq!(nodes.reading_at(&Wanted::of(1), later), None);
        assert_eq!(nodes.reading_at(&Wanted::of(2), later), Some(2));
    }

    #[test]
    fn a_silent_node_is_left_behind_only_if_the_chain_goes_on() {
        let since = NOW.saturating_sub(LEFT_AFTER);
        for (heights, owes, is_left) in [
            ([50, 52, 52], true, true),
            // It executes a block, and the others have that one.
            ([50, 51, 51], true, false),
            ([50, 50, 50], true, false),
            ([50, 52, 52], false, false),
        ] {
            let nodes = nodes(|states| {
                let of_first = owes.then_some(since);
                for (state, height) in states.into_iter().zip(heights) {
                    state.height = height;
                    state.unanswered_since = (height == 50).then_some(of_first).flatten();
                }
            });
            assert_eq!(nodes.is_left_behind(0, NOW), is_left, "{heights:?} {owes}");
        }
    }
}
