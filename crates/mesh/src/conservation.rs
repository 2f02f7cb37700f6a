//! What must add up in the account of a mesh run, whatever happened.

use serde::{Deserialize, Serialize};

use super::account::{Account, PlayedMesh};
use super::control::{LinkCount, Status};
use crate::settings::Topology;

/// How the account adds up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Conservation {
    /// What is broken of them; empty when the account adds up.
    pub violations: Vec<String>,
    /// Parcels written.
    pub written: u64,
    /// Of those, read.
    pub read: u64,
    /// Of those, lost with links that broke, or on the way to a node that ended without a report, or when the drain
    /// ended.
    pub lost: u64,
    /// First sights that are due: each message that every node relays, at every node.
    pub sights_due: u64,
    /// Of those, there were so many.
    pub sights: u64,
}

impl Conservation {
    /// Checks the account of a run.
    pub(crate) fn of(played: &PlayedMesh, topology: Topology, fanout: u16) -> Self {
        let mut laws = Self::default();
        let account = &played.account;
        laws.parcels(account, played.undrained.is_some());
        laws.queues(account);
        laws.sights(account, topology, fanout);
        laws
    }

    /// Every message put into a queue was written or dropped, or waits.
    fn queues(&mut self, account: &Account) {
        for (node, it) in account.nodes.iter().enumerate() {
            let Some(status) = &it.status else {
                continue;
            };
            let total = &it.total;
            let left = total.messages_out + total.dropped_full + total.dropped_link;
            // Pings may wait too, so what waits is an upper bound.
            if total.queued_in < left || total.queued_in > left + status.queued {
                self.violations.push(format!(
                    "node {node} put {} messages into queues, but {left} left them and {} wait",
                    total.queued_in, status.queued
                ));
            }
        }
    }

    /// Every parcel written is read, lost with a broken link, or still on its way where the mesh was not drained.
    fn parcels(&mut self, account: &Account, is_under_way: bool) {
        let status = |node: usize| account.nodes.get(node)?.status.as_ref();
        for node in 0..account.nodes.len() {
            let Some(own) = status(node) else {
                continue;
            };
            for link in &own.links {
                self.written += link.written;
                let Some(peer) = status(usize::from(link.peer)) else {
                    self.lost += link.written;
                    continue;
                };
                let back = back(peer, node);
                self.read += back.read;
                let is_broken = link.broken > 0 || back.broken > 0;
                match link.written.checked_sub(back.read) {
                    Some(0) => {}
                    Some(lost) if is_broken || is_under_way => self.lost += lost,
                    _ => self.violations.push(format!(
                        "node {node} wrote {} parcels to node {}, which read {}, on links that never broke",
                        link.written, link.peer, back.read
                    )),
                }
            }
        }
    }

    /// In a full mesh whose nodes relay to all, every message is seen by every node, unless something
    /// was dropped, lost or is under way.
    fn sights(&mut self, account: &Account, topology: Topology, fanout: u16) {
        let nodes = account.nodes.len() as u64;
        let total = account.total();
        self.sights_due = total.made_for_all * nodes;
        self.sights = total.first_seen_for_all;
        let waiting: u64 = account
            .nodes
            .iter()
            .filter_map(|it| Some(it.status.as_ref()?.queued))
            .sum();
        let explained = total.dropped_full
            + total.dropped_link
            + total.dropped_no_peer
            + total.never_came
            + total.forgotten
            + self.lost
            + waiting;
        let has_links = |status: &Status| !status.links.is_empty();
        let mut statuses = account.nodes.iter().map(|it| it.status.as_ref());
        let all_report = statuses.all(|status| status.is_some_and(has_links));
        let floods = topology == Topology::Full && u64::from(fanout) + 1 >= nodes;
        if all_report && floods && explained == 0 && self.sights != self.sights_due {
            self.violations.push(format!(
                "{} first sights were due and there were {}, but nothing was dropped or lost",
                self.sights_due, self.sights
            ));
        }
        if self.sights > self.sights_due && all_report && total.forgotten == 0 {
            self.violations.push(format!(
                "there were {} first sights, more than the {} that were due",
                self.sights, self.sights_due
            ));
        }
    }
}

/// What a node has from another.
fn back(status: &Status, from: usize) -> LinkCount {
    let link = status
        .links
        .iter()
        .find(|link| usize::from(link.peer) == from);
    link.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::{Counters, Row};
    use crate::plan::tests::load;

    /// Two nodes, of which the first made 10 messages; `change` may spoil the account.
    fn account(change: impl Fn(&mut [Row; 2], &mut [Status; 2])) -> Account {
        let phase = json!({"profile": "constant", "rate": "10/s", "duration": "1s"});
        let mut account = Account::new(2, load(phase).schedule().unwrap());
        let row = |made: u64| Row {
            counters: Counters {
                made_for_all: made,
                first_seen_for_all: 10,
                queued_in: 20,
                messages_out: 20,
                ..Counters::default()
            },
            ..Row::default()
        };
        let status = |peer: u16| Status {
            links: vec![LinkCount {
                peer,
                written: 21,
                read: 21,
                broken: 0,
            }],
            ..Status::default()
        };
        let (mut rows, mut statuses) = ([row(10), row(0)], [status(1), status(0)]);
        change(&mut rows, &mut statuses);
        for (node, (row, status)) in rows.into_iter().zip(statuses).enumerate() {
            account.row(node as u16, row);
            account.nodes[node].status = Some(status);
        }
        account
    }

    fn laws(account: Account, undrained: Option<&str>) -> Conservation {
        let played = PlayedMesh {
            account,
            origin_unix_ns: 0,
            interrupted: false,
            undrained: undrained.map(str::to_owned),
        };
        Conservation::of(&played, Topology::Full, 16)
    }

    fn violations(account: Account) -> Vec<String> {
        laws(account, None).violations
    }

    #[test]
    fn an_account_of_which_nothing_is_missing_adds_up() {
        let laws = laws(account(|_, _| {}), None);
        assert_eq!((laws.written, laws.read, laws.lost), (42, 42, 0));
        assert_eq!((laws.sights_due, laws.sights), (20, 20));
        assert!(laws.violations.is_empty(), "{:?}", laws.violations);
    }

    #[test]
    fn a_parcel_that_vanished_from_a_whole_link_breaks_the_law_but_not_from_a_broken_one() {
        let lost = || account(|_, statuses| statuses[1].links[0].read = 20);
        assert!(violations(lost())[0].contains("on links that never broke"));
        let under_way = laws(lost(), Some("5 parcels wait in queues"));
        assert_eq!(under_way.violations, Vec::<String>::new());
        assert_eq!(under_way.lost, 1, "the drain ended before it was read");
        let broken = account(|rows, statuses| {
            statuses[1].links[0].read = 20;
            statuses[1].links[0].broken = 1;
            rows[1].counters.first_seen_for_all = 9;
        });
        let laws = laws(broken, None);
        assert_eq!(
            (laws.violations.len(), laws.lost),
            (0, 1),
            "{:?}",
            laws.violations
        );
    }

    #[test]
    fn a_message_that_nobody_dropped_and_somebody_did_not_see_breaks_the_law() {
        let unseen = account(|rows, _| rows[1].counters.first_seen_for_all = 9);
        assert!(violations(unseen)[0].contains("20 first sights were due and there were 19"));
        let dropped = account(|rows, _| {
            rows[1].counters.first_seen_for_all = 9;
            rows[0].counters.dropped_full = 1;
            rows[0].counters.messages_out = 19;
        });
        assert_eq!(violations(dropped), Vec::<String>::new());
    }

    #[test]
    fn messages_that_left_no_queue_and_do_not_wait_break_the_law() {
        let gone = account(|rows, _| rows[0].counters.messages_out = 18);
        assert!(violations(gone)[0].contains("put 20 messages into queues, but 18 left"));
        let waiting = account(|rows, statuses| {
            rows[0].counters.messages_out = 18;
            statuses[0].queued = 2;
        });
        assert_eq!(violations(waiting), Vec::<String>::new());
    }

    #[test]
    fn what_was_written_to_a_node_that_ended_is_counted_as_lost() {
        let mut account = account(|_, _| {});
        account.nodes[1].status = None;
        account.nodes[1].ended_s = Some(0.5);
        let laws = laws(account, None);
        assert_eq!((laws.written, laws.lost), (21, 21));
        assert!(laws.violations.is_empty(), "{:?}", laws.violations);
    }
}
