//! What is known of all observed nodes, and its rows.

use std::collections::{HashSet, VecDeque};
use std::io::{self, Write};
use std::num::NonZeroU64;

use chain::Facts;
use measure::read::TableRow;
use measure::{IdText, KeptRows, NodeRow, SightRow, TxHash, write_row};
use pacing::Nanos;
use report::text::grouped;
use rpc::{Arrival, FollowedBlock, Mempool};

use super::Presence;
use super::intake::Intake;
use crate::settings::Observed;

/// The tables, each written a whole row at a time.
#[derive(Debug)]
pub(crate) struct Tables<W> {
    pub(crate) nodes: W,
    pub(crate) sights: W,
}

/// What was seen of the nodes, in words.
#[derive(Debug, Default)]
pub(crate) struct Observation {
    /// Where a node was away: its figures are missing there.
    pub(crate) gaps: Vec<String>,
    /// A line for each node.
    pub(crate) lines: Vec<String>,
    /// What could not be written.
    pub(crate) write_error: Option<io::Error>,
}

impl Observation {
    /// For people: a line for each node.
    pub(crate) fn text(&self) -> String {
        let mut text: String = self
            .lines
            .iter()
            .map(|line| format!("observed     {line}\n"))
            .collect();
        if let Some(error) = &self.write_error {
            text.push_str(&format!(
                "             {}: {error}\n",
                base::write_failure("nodes.csv or sights.csv", error)
            ));
        }
        text
    }
}

/// Which transactions are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    /// Of those that a load of ours sends.
    OfOurs,
    /// Of all that a node shows. All observers choose the same ones, by their hashes.
    OfAll,
}

/// One transaction in 64, by its hash: at 2,000/s 31 a second, for which a node can be asked in one request.
pub(super) const SAMPLED: KeptRows = KeptRows::Sample(NonZeroU64::new(64).expect("not zero"));

/// All nodes.
#[derive(Debug)]
pub(super) struct Book<W> {
    nodes: Vec<Node>,
    ids: IdText,
    has_coinbase: bool,
    tables: Tables<W>,
    write_error: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Node {
    /// The second under way.
    row: NodeRow,
    /// The load reports its silences.
    is_loaded: bool,
    /// Its follower reports when blocks arrive.
    arrives: bool,
    intake: Intake,
    presence: Presence,
    /// Sampled transactions that it has not shown yet, those first that it was not asked for the longest.
    awaited: VecDeque<Awaited>,
    /// Those that it never showed.
    unseen: u64,
    seen: u64,
    blocks: u64,
    /// The deepest mempool in the seconds that are written.
    deepest: Option<u64>,
    /// Sampled transactions that it has shown, the oldest first; of a load that is not ours.
    shown: HashSet<TxHash>,
    shown_order: VecDeque<TxHash>,
    /// What became of its process.
    processes: Vec<String>,
}

#[derive(Debug)]
struct Awaited {
    hash: TxHash,
    sent: Nanos,
    /// When the node was last asked for it, and when before.
    asked: [Option<Nanos>; 2],
}

impl<W: Write> Book<W> {
    pub(super) fn new(nodes: &[Observed], facts: &Facts, tables: Tables<W>) -> Self {
        let node = |node: &Observed| Node {
            row: NodeRow {
                node: node.name.clone(),
                ..NodeRow::default()
            },
            is_loaded: node.is_loaded,
            ..Node::default()
        };
        let mut book = Self {
            nodes: nodes.iter().map(node).collect(),
            ids: facts.ids,
            has_coinbase: facts.has_coinbase,
            tables,
            write_error: None,
        };
        let headers = (
            book.tables.nodes.write_all(NodeRow::HEADER.as_bytes()),
            book.tables.sights.write_all(SightRow::HEADER.as_bytes()),
        );
        book.note(headers.0.and(headers.1));
        book
    }

    /// The node reported the depth of its mempool, or did not.
    pub(super) fn mempool(&mut self, node: usize, at: Nanos, told: Option<Mempool>) {
        let node = &mut self.nodes[node];
        node.row.asked += 1;
        let Some(mempool) = told else {
            node.presence.failed(at);
            node.intake.gap();
            return;
        };
        node.presence.answered(at);
        node.row.answered += 1;
        let txs = Some(mempool.txs);
        let row = &mut node.row;
        row.mempool_txs = txs;
        row.mempool_min = row.mempool_min.min(txs).or(txs);
        row.mempool_max = row.mempool_max.max(txs);
        row.mempool_bytes = Some(mempool.bytes);
        node.intake.depth(at, mempool.txs);
    }

    /// The node showed a block.
    pub(super) fn block(&mut self, node: usize, block: &FollowedBlock) {
        let coinbases = u64::from(self.has_coinbase);
        let node = &mut self.nodes[node];
        let from_mempool = (block.hashes.len() as u64).saturating_sub(coinbases);
        node.intake.block(from_mempool);
        node.row.height = Some(block.height);
        node.row.blocks += 1;
        node.row.block_txs += block.hashes.len() as u64;
        node.row.block_bytes += block.bytes;
        node.blocks += 1;
        // Where blocks compete it was reported when it arrived.
        if !node.arrives {
            let id = block.hash.map(|hash| self.ids.text(&hash));
            let sight = SightRow {
                kind: SightRow::BLOCK.into(),
                id: id.unwrap_or_else(|| block.height.to_string()),
                node: node.row.node.clone(),
                seen_ns: block.observed.as_nanos(),
                resolution_ms: block.resolution.map(Nanos::as_millis_f64),
                bytes: Some(block.bytes),
                txs: Some(block.hashes.len() as u64),
                sent_ns: None,
                height: Some(block.height),
            };
            self.write(&sight);
        }
    }

    /// The node has a block, on whatever branch.
    pub(super) fn arrived(&mut self, node: usize, block: &Arrival) {
        let node = &mut self.nodes[node];
        node.arrives = true;
        let sight = SightRow {
            kind: SightRow::BLOCK.into(),
            id: self.ids.text(&block.hash),
            node: node.row.node.clone(),
            seen_ns: block.at.as_nanos(),
            resolution_ms: block.resolution.map(Nanos::as_millis_f64),
            bytes: Some(block.bytes),
            txs: Some(block.txs),
            sent_ns: None,
            height: Some(block.height),
        };
        self.write(&sight);
    }

    /// These blocks, from this height on, are not on the node's best chain any more.
    pub(super) fn left(&mut self, node: usize, at: Nanos, height: u64, blocks: &[[u8; 32]]) {
        for (height, hash) in (height..).zip(blocks) {
            let sight = SightRow {
                kind: SightRow::LEFT.into(),
                id: self.ids.text(hash),
                node: self.nodes[node].row.node.clone(),
                seen_ns: at.as_nanos(),
                height: Some(height),
                ..SightRow::default()
            };
            self.write(&sight);
        }
    }

    /// A sampled transaction was sent: it is looked for at every node from now on.
    pub(super) fn sent(&mut self, hash: TxHash, at: Nanos) {
        for node in &mut self.nodes {
            if node.awaited.len() == MOST_AWAITED {
                let sent = node.awaited.iter().map(|it| it.sent).enumerate();
                if let Some((oldest, _)) = sent.min_by_key(|(_, sent)| *sent) {
                    node.awaited.remove(oldest);
                }
                node.unseen += 1;
            }
            node.awaited.push_back(Awaited {
                hash,
                sent: at,
                asked: [None; 2],
            });
        }
    }

    /// The sampled transactions to ask a node for now. All come in turn: many that a node refused, and will never have,
    /// keep none that it may have from being asked for.
    pub(super) fn awaited(&mut self, node: usize, now: Nanos) -> Vec<TxHash> {
        let awaited = &mut self.nodes[node].awaited;
        let count = awaited.len().min(MOST_ASKED);
        let turn = awaited.iter_mut().take(count);
        let hashes = turn.map(|it| {
            it.asked = [Some(now), it.asked[0]];
            it.hash
        });
        let hashes = hashes.collect();
        awaited.rotate_left(count);
        hashes
    }

    /// The question of this instant was not answered: it shows of none whether the node had it.
    pub(super) fn unanswered(&mut self, node: usize, asked: Nanos) {
        for it in &mut self.nodes[node].awaited {
            if it.asked[0] == Some(asked) {
                it.asked = [it.asked[1]; 2];
            }
        }
    }

    /// The node answered that it has these of those that it was asked for: it may have had each since the question
    /// before, or since it was sent.
    pub(super) fn held(&mut self, node: usize, at: Nanos, has: &HashSet<TxHash>) {
        self.found(node, at, has, |it| {
            let since = it.asked[1].unwrap_or_default().max(it.sent);
            Some(at.saturating_sub(since))
        });
    }

    /// The node showed these of them; it may have had them for `resolution`.
    pub(super) fn seen(
        &mut self,
        node: usize,
        at: Nanos,
        resolution: Option<Nanos>,
        has: &HashSet<TxHash>,
    ) {
        self.found(node, at, has, |_| resolution);
    }

    fn found(
        &mut self,
        node: usize,
        at: Nanos,
        has: &HashSet<TxHash>,
        resolution: impl Fn(&Awaited) -> Option<Nanos>,
    ) {
        let mut sights = Vec::new();
        let ids = self.ids;
        let node = &mut self.nodes[node];
        let name = &node.row.node;
        node.awaited.retain(|it| {
            let seen = has.contains(&it.hash);
            if seen {
                let (id, sent) = (ids.text(&it.hash), Some(it.sent));
                sights.push(sight_of(name, id, at, resolution(it), sent));
            }
            !seen
        });
        node.seen += sights.len() as u64;
        for sight in &sights {
            self.write(sight);
        }
    }

    /// The node has these, and may have had them for `resolution`: those of them that are sampled and that it shows
    /// for the first time have a sight.
    pub(super) fn shown(
        &mut self,
        node: usize,
        at: Nanos,
        resolution: Option<Nanos>,
        has: Vec<TxHash>,
    ) {
        let ids = self.ids;
        let node = &mut self.nodes[node];
        let mut sights = Vec::new();
        for hash in has {
            if !SAMPLED.keeps(&hash) || !node.shown.insert(hash) {
                continue;
            }
            node.shown_order.push_back(hash);
            if node.shown_order.len() > MOST_SHOWN
                && let Some(oldest) = node.shown_order.pop_front()
            {
                node.shown.remove(&oldest);
            }
            sights.push(sight_of(
                &node.row.node,
                ids.text(&hash),
                at,
                resolution,
                None,
            ));
        }
        node.seen += sights.len() as u64;
        for sight in &sights {
            self.write(sight);
        }
    }

    /// Something became of the node's process.
    pub(super) fn process(&mut self, node: usize, told: String) {
        let processes = &mut self.nodes[node].processes;
        if processes.len() < MOST_PROCESSES {
            processes.push(told);
        }
    }

    /// Writes the row of a second that is over, with what the process used in it.
    pub(super) fn close(&mut self, node: usize, second: u64, used: impl FnOnce(&mut NodeRow)) {
        let node = &mut self.nodes[node];
        node.row.admitted_tps = node.intake.close();
        let row = &mut node.row;
        let next = NodeRow {
            node: row.node.clone(),
            height: row.height,
            ..NodeRow::default()
        };
        let mut row = std::mem::replace(row, next);
        row.second = second;
        node.deepest = node.deepest.max(row.mempool_max);
        used(&mut row);
        let mut bytes = Vec::new();
        write_row(&row, &mut bytes);
        let written = self.tables.nodes.write_all(&bytes);
        self.note(written);
    }

    /// What was seen by the end.
    pub(super) fn finish(&mut self, now: Nanos) -> Observation {
        let mut gaps = Vec::new();
        let mut lines = Vec::new();
        for node in &mut self.nodes {
            let name = node.row.node.clone();
            let (found, more) = match node.presence.finish(now) {
                _ if node.is_loaded => (&[][..], 0),
                found => found,
            };
            for gap in found {
                let from = gap.from.as_secs_f64();
                let until = match gap.until {
                    Some(until) => format!("until {:.1} s", until.as_secs_f64()),
                    None => "to the end".into(),
                };
                gaps.push(format!(
                    "the observed node {name} gave no answer from {from:.1} s {until}: its figures are missing there"
                ));
            }
            if more > 0 {
                gaps.push(format!(
                    "the observed node {name} was away {more} more times"
                ));
            }
            gaps.append(&mut node.processes);
            let unseen = node.unseen + node.awaited.len() as u64;
            lines.push(format!(
                "{name}: {} blocks, up to {} in its mempool; of {} sampled transactions {} seen",
                grouped(node.blocks),
                grouped(node.deepest.unwrap_or(0)),
                grouped(node.seen + unseen),
                grouped(node.seen)
            ));
        }
        Observation {
            gaps,
            lines,
            write_error: self.write_error.take(),
        }
    }

    fn write(&mut self, sight: &SightRow) {
        let mut bytes = Vec::new();
        write_row(sight, &mut bytes);
        let written = self.tables.sights.write_all(&bytes);
        self.note(written);
    }

    /// The first error, reported at the end; watching goes on.
    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.write_error.get_or_insert(error);
        }
    }
}

/// A sampled transaction at a node; `sent` if it is known when that was.
fn sight_of(
    node: &str,
    id: String,
    at: Nanos,
    resolution: Option<Nanos>,
    sent: Option<Nanos>,
) -> SightRow {
    SightRow {
        kind: SightRow::TX.into(),
        id,
        node: node.into(),
        seen_ns: at.as_nanos(),
        resolution_ms: resolution.map(|resolution| resolution.as_millis_f64()),
        sent_ns: sent.map(Nanos::as_nanos),
        ..SightRow::default()
    }
}

/// Sampled transactions that a node has not shown: what it drops first is the oldest.
const MOST_AWAITED: usize = 2_048;
/// Sampled transactions that are known to have been shown, 80 bytes each: those of an hour at 1,000/s.
const MOST_SHOWN: usize = 65_536;
/// What became of a node's process, reported at the end.
const MOST_PROCESSES: usize = 16;
/// In one question.
const MOST_ASKED: usize = 256;

#[cfg(test)]
mod tests;
