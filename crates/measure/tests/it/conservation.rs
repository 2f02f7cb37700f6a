//! Whatever the order of events: every transaction ends once, in one row, in the right second.
//!
//! A run is drawn at random and told twice: to the recorder, source by source in a random
//! interleaving, and to a model that looks at all of it at once.

use std::collections::BTreeMap;

use measure::{
    Answered, BlockSeen, BlockTx, Cause, Codespace, Failure, RecorderConfig, Reply, SchedulePlan,
    Sent, SourceId, TxHash, Unsent, UnsentReason, hash_prefix,
};
use pacing::Nanos;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{File, Folder, ORIGIN_UNIX_NS, constant, end, hash, ms};

const SENDERS: u16 = 3;
const FOLLOWERS: u16 = 2;
const END_MS: u64 = 4_000;
const FOREIGN: u64 = 1_000_000;

/// What happens to one transaction of the plan.
#[derive(Debug, Clone)]
struct Story {
    sender: u16,
    /// Carries the hash of an earlier transaction.
    repeats: Option<prop::sample::Index>,
    late_us: u64,
    fate: Told,
    /// Blocks between sending and inclusion; nothing: never included.
    included_after: Option<usize>,
    failed_in_block: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    Unsent(UnsentReason),
    Silence,
    After(u64, Reply),
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        6 => Just(Reply::Accepted),
        1 => (1..4_u32).prop_map(Reply::rejected),
        1 => Just(Reply::RpcError { code: -32603 }),
        2 => prop::sample::select(Failure::ALL.to_vec()).prop_map(Reply::Failed),
    ]
}

fn story() -> impl Strategy<Value = Story> {
    let told = prop_oneof![
        1 => prop::sample::select(UnsentReason::ALL.to_vec()).prop_map(Told::Unsent),
        1 => Just(Told::Silence),
        8 => (1..900_000_u64, reply()).prop_map(|(after, reply)| Told::After(after, reply)),
    ];
    (
        0..SENDERS,
        prop::option::weighted(0.1, any::<prop::sample::Index>()),
        0..300_000_u64,
        told,
        prop::option::weighted(0.7, 0..4_usize),
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(sender, repeats, late_us, fate, included_after, failed_in_block)| Story {
                sender,
                repeats,
                late_us,
                fate,
                included_after,
                failed_in_block,
            },
        )
}

#[derive(Debug, Clone)]
enum Event {
    Sent(Sent),
    Answered(Answered),
    Unsent(Unsent),
    Block(BlockSeen),
}

/// Everything that happens, by source, each source in the order of its stamps.
#[derive(Debug, Default)]
struct Run {
    sources: Vec<Vec<(Nanos, Event)>>,
    sent: Vec<Sent>,
    answers: BTreeMap<u64, Answered>,
    unsent: Vec<Unsent>,
    blocks: Vec<BlockSeen>,
}

/// Due times are those of 40/s; blocks come every 250 ms.
fn due(index: usize) -> Nanos {
    Nanos::from_millis(index as u64 * 25)
}

impl Run {
    fn of(stories: &[Story]) -> Self {
        let mut run = Self {
            blocks: (1..=14)
                .map(|height| BlockSeen {
                    height,
                    header_time_unix_ns: 0,
                    observed: ms(height * 250 + 13),
                    resolution: None,
                    gas_wanted: None,
                    gas_used: None,
                    bytes: 10,
                    txs: vec![BlockTx {
                        hash: hash(FOREIGN + height),
                        code: 0,
                        space: Codespace::NONE,
                    }],
                })
                .collect(),
            sources: vec![Vec::new(); usize::from(SENDERS + FOLLOWERS)],
            ..Self::default()
        };
        let mut hashes: Vec<TxHash> = Vec::new();
        for (index, story) in stories.iter().enumerate() {
            let own = hash(index as u64);
            let repeated = story.repeats.filter(|_| index > 0);
            hashes.push(repeated.map_or(own, |earlier| hashes[earlier.index(index)]));
            run.tell(index, story, hashes[index]);
        }
        for (follower, delay_us) in [(SENDERS, 0), (SENDERS + 1, 40)] {
            for block in &run.blocks {
                let mut block = block.clone();
                block.observed = block.observed.saturating_add(Nanos::from_micros(delay_us));
                run.sources[usize::from(follower)].push((block.observed, Event::Block(block)));
            }
        }
        for source in &mut run.sources {
            source.sort_by_key(|(at, _)| *at);
        }
        run
    }

    fn tell(&mut self, index: usize, story: &Story, hash: TxHash) {
        let due = due(index);
        let at = due.saturating_add(Nanos::from_micros(story.late_us));
        let events = &mut self.sources[usize::from(story.sender)];
        if let Told::Unsent(reason) = story.fate {
            let unsent = Unsent {
                index: index as u64,
                due,
                at,
                step: 0,
                reason,
            };
            events.push((at, Event::Unsent(unsent)));
            self.unsent.push(unsent);
            return;
        }
        let sent = Sent {
            index: index as u64,
            hash,
            size: 100,
            due,
            sent: at,
            endpoint: 0,
            step: 0,
            cause: Cause::Node,
            own_late: false,
        };
        events.push((at, Event::Sent(sent)));
        self.sent.push(sent);
        if let Told::After(after_us, reply) = story.fate {
            let answered = Answered {
                index: index as u64,
                hash_prefix: hash_prefix(&hash),
                at: at.saturating_add(Nanos::from_micros(after_us)),
                reply,
            };
            events.push((answered.at, Event::Answered(answered)));
            self.answers.insert(index as u64, answered);
        }
        if let Some(after) = story.included_after {
            let mut later = self.blocks.iter_mut().filter(|block| block.observed > at);
            if let Some(block) = later.nth(after) {
                let code = u32::from(story.failed_in_block) * 9;
                let space = Codespace::NONE;
                block.txs.push(BlockTx { hash, code, space });
            }
        }
    }

    fn rejected(&self, index: u64) -> bool {
        let reply = self.answers.get(&index).map(|answer| answer.reply);
        matches!(reply, Some(Reply::Rejected { .. } | Reply::RpcError { .. }))
    }

    fn count(&self, matches: impl Fn(Reply) -> bool) -> u64 {
        let answers = self.answers.values();
        answers.filter(|answer| matches(answer.reply)).count() as u64
    }

    /// How many of the run's transactions carry `hash`, how many of them are not rejected, and how
    /// often it is in a block.
    fn group(&self, hash: TxHash) -> (usize, usize, usize) {
        let members = || self.sent.iter().filter(|sent| sent.hash == hash);
        let open = members().filter(|sent| !self.rejected(sent.index)).count();
        let in_blocks = self.blocks.iter().flat_map(|block| &block.txs);
        let included = in_blocks.filter(|tx| tx.hash == hash).count();
        (members().count(), open, included)
    }
}

/// Who speaks next, and how many events more than one.
type Turn = (usize, usize);

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    vec((any::<usize>(), 0..8_usize), 1..40)
}

/// Plays the sources to a recorder.
fn play(run: &Run, turns: &[Turn], folder: &Folder) -> measure::Summary {
    let mut config = RecorderConfig::new(ORIGIN_UNIX_NS, SENDERS, FOLLOWERS);
    config.max_lag = ms(60_000);
    let planned = (run.sent.len() + run.unsent.len()) as u64;
    let plan = SchedulePlan::new(constant("40/s", "3s"));
    let mut recorder = folder.recorder(config, plan);
    let offered_until = ms(planned * 25);
    recorder.offering_ended(offered_until);
    let mut told = vec![0; run.sources.len()];
    let endless = turns.iter().cycle();
    for (who, length) in endless {
        let open: Vec<usize> = (0..told.len())
            .filter(|&source| told[source] < run.sources[source].len())
            .collect();
        if open.is_empty() {
            break;
        }
        let source = open[who % open.len()];
        for _ in 0..=*length {
            let Some((_, event)) = run.sources[source].get(told[source]) else {
                break;
            };
            match event {
                Event::Sent(sent) => recorder.sent(sent),
                Event::Answered(answered) => recorder.answered(answered),
                Event::Unsent(unsent) => recorder.unsent(unsent),
                Event::Block(block) => recorder.block(block.clone()),
            }
            told[source] += 1;
        }
        let next = run.sources[source].get(told[source]);
        let mark = next.map_or(ms(END_MS), |(at, _)| *at);
        recorder.watermark(SourceId(source as u16), mark);
    }
    recorder
        .finish(end(planned, offered_until, ms(END_MS)))
        .summary
}

fn check_fates(run: &Run, summary: &measure::Summary) {
    let fate = &summary.fate;
    assert!(summary.conservation.holds, "{:?}", summary.conservation);
    assert_eq!(fate.sent, run.sent.len() as u64);
    assert_eq!(fate.accepted, run.count(|reply| reply == Reply::Accepted));
    assert_eq!(
        fate.errors,
        run.count(|reply| matches!(reply, Reply::Failed(_)))
    );
    for failure in Failure::ALL {
        assert_eq!(
            fate.errors_by_kind[failure.name()],
            run.count(|reply| reply == Reply::Failed(failure))
        );
    }
    assert_eq!(
        fate.rejected_by_code.get("-32603").copied().unwrap_or(0),
        run.count(|reply| reply == Reply::RpcError { code: -32603 })
    );
    assert_eq!(fate.unanswered, (run.sent.len() - run.answers.len()) as u64);
    for reason in UnsentReason::ALL {
        let expected = run.unsent.iter().filter(|unsent| unsent.reason == reason);
        assert_eq!(
            summary.offered.unsent_by_reason[reason.name()],
            expected.count() as u64
        );
    }
    assert_eq!(summary.recorder.late_events, 0);
    assert_eq!(summary.recorder.stray_answers, 0);
    let txs: usize = run.blocks.iter().map(|block| block.txs.len()).sum();
    assert_eq!(summary.blocks.count, run.blocks.len() as u64);
    assert_eq!(summary.blocks.txs, txs as u64);
}

fn check_rows(run: &Run, summary: &measure::Summary, folder: &Folder) {
    let committed = folder.txs.column("committed_ns");
    let mut rows: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (id, committed) in folder.txs.column("txid").into_iter().zip(&committed) {
        let row = rows.entry(id).or_default();
        row.0 += 1;
        row.1 += usize::from(!committed.is_empty());
    }
    assert_eq!(committed.len(), run.sent.len(), "one row each");
    for sent in &run.sent {
        let id: String = sent.hash.iter().map(|byte| format!("{byte:02X}")).collect();
        let (members, open, included) = run.group(sent.hash);
        let (rows, committed) = rows[&id];
        assert_eq!(rows, members);
        // A rejected one takes a block's place only when the block came before its answer. The
        // blocks of a repeated hash may lie before it was sent again.
        assert!(committed <= included.min(members));
        if members == 1 {
            assert!(committed >= included.min(open), "{id}");
        }
    }
    let own = committed.iter().filter(|stamp| !stamp.is_empty()).count();
    assert_eq!(summary.blocks.own_txs, own as u64);
    assert_eq!(folder.blocks.sum("own_txs"), own as u64);
}

fn check_seconds(run: &Run, folder: &Folder) {
    let by_second = |stamps: &mut dyn Iterator<Item = Nanos>| {
        let mut counts = vec![0_u64; (END_MS / 1_000) as usize];
        for at in stamps {
            counts[at.as_secs() as usize] += 1;
        }
        counts
    };
    let column = |file: &File, name: &str| -> Vec<u64> {
        let values = file.column(name);
        values.iter().map(|value| value.parse().unwrap()).collect()
    };
    let series = &folder.series;
    let accepted = run
        .answers
        .values()
        .filter(|answer| answer.reply == Reply::Accepted);
    assert_eq!(
        column(series, "sent"),
        by_second(&mut run.sent.iter().map(|sent| sent.sent))
    );
    assert_eq!(
        column(series, "unsent"),
        by_second(&mut run.unsent.iter().map(|unsent| unsent.at))
    );
    assert_eq!(
        column(series, "accepted"),
        by_second(&mut accepted.map(|answer| answer.at))
    );
    assert_eq!(
        column(series, "blocks"),
        by_second(&mut run.blocks.iter().map(|block| block.observed))
    );
    let due = run.sent.iter().map(|sent| sent.due);
    let due = due.chain(run.unsent.iter().map(|unsent| unsent.due));
    assert_eq!(column(series, "offered"), by_second(&mut due.into_iter()));
    let in_blocks = series.sum("committed") + series.sum("commit_failed");
    assert_eq!(in_blocks, folder.blocks.sum("own_txs"));
}

/// The rows of steps with the columns before this one; all of them where there is none of this name.
fn steps_up_to(column: &str, text: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let heading: Vec<String> = lines.next().unwrap().collect();
    let known = heading.iter().position(|name| name == column);
    let columns = known.unwrap_or(heading.len());
    lines.map(|line| line.take(columns).collect()).collect()
}

/// The step is judged at 2 s. Its last transaction is in a block seen at 1.26 s, its answer comes at 2.09 s:
/// it was not accepted and committed by then, whichever is reported first.
#[test]
fn a_block_reported_after_a_later_answer_counts_from_the_answer_on() {
    let told = |index: usize| Story {
        sender: 0,
        repeats: None,
        late_us: if index == 39 { 225_000 } else { 0 },
        fate: Told::After(if index == 39 { 890_000 } else { 1_000 }, Reply::Accepted),
        included_after: Some(0),
        failed_in_block: false,
    };
    let stories: Vec<Story> = (0..40).map(told).collect();
    let run = Run::of(&stories);
    // The first open source each time, or the last one: 59 leaves n - 1 when divided by n up to 5.
    for turn in [(0, 0), (59, 0)] {
        let folder = Folder::new();
        play(&run, &[turn], &folder);
        for column in ["due_accepted", "due_committed"] {
            assert_eq!(folder.steps.column(column), ["39"], "{turn:?} {column}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_transaction_ends_once(
        stories in vec(story(), 1..100),
        turns in turns(),
    ) {
        let run = Run::of(&stories);
        let folder = Folder::new();
        let summary = play(&run, &turns, &folder);
        check_fates(&run, &summary);
        check_rows(&run, &summary, &folder);
        check_seconds(&run, &folder);
    }

    #[test]
    fn the_order_of_the_sources_does_not_matter(
        stories in vec(story(), 1..60),
        turns in turns(),
        others in turns(),
    ) {
        // Whether a rejection or the block comes first decides about a transaction that has both;
        // all the rest must not depend on who speaks first.
        let refused = |story: &Story| {
            matches!(story.fate, Told::After(_, Reply::Rejected { .. } | Reply::RpcError { .. }))
        };
        let mut stories = stories;
        let any_refused = stories.iter().any(refused);
        for story in &mut stories {
            story.repeats = story.repeats.filter(|_| !any_refused);
            story.included_after = story.included_after.filter(|_| !refused(story));
        }
        let run = Run::of(&stories);
        let repeats = stories.iter().any(|story| story.repeats.is_some());
        let (first, second) = (Folder::new(), Folder::new());
        let one = play(&run, &turns, &first);
        let other = play(&run, &others, &second);
        prop_assert_eq!(first.series.text(), second.series.text());
        prop_assert_eq!(first.blocks.text(), second.blocks.text());
        // Which of two transactions with the same bytes a block has depends on who speaks first, and only
        // one that was accepted counts for its step.
        let columns = if repeats { "due_sent" } else { "" };
        let steps = |folder: &Folder| steps_up_to(columns, &folder.steps.text());
        prop_assert_eq!(steps(&first), steps(&second));
        if !repeats {
            prop_assert_eq!(one.fate, other.fate);
            prop_assert_eq!(one.latency_ms, other.latency_ms);
        }
    }
}
