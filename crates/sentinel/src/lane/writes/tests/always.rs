//! What holds whatever happens.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

/// A thing that happens to one of the writes, or to all.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert { name: u8, line: u64 },
    Send,
    Pass,
    Full,
    Behind,
    BehindBlock,
    Reject,
    Known,
    Break,
    Block,
    Recover,
    Restart,
    AskAgain,
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_u8, 0..4_u64).prop_map(|(name, line)| Step::Insert { name, line }),
        8 => Just(Step::Send),
        3 => Just(Step::Pass),
        1 => Just(Step::Full),
        1 => Just(Step::Behind),
        1 => Just(Step::BehindBlock),
        1 => Just(Step::Reject),
        1 => Just(Step::Known),
        1 => Just(Step::Break),
        1 => Just(Step::Block),
        1 => Just(Step::Recover),
        1 => Just(Step::Restart),
        1 => Just(Step::AskAgain),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    /// Whatever happens, every write ends once, nothing waits for nothing, and a line's first offers keep its order.
    #[test]
    fn case_99_every_write_ends_once(steps in proptest::collection::vec(step(), 1..300)) {
        let mut writes = Writes::new(10 * (10 + OVERHEAD));
        let (mut inserted, mut ended, mut now) = (0, 0, 0_u64);
        static HASHES: std::sync::LazyLock<Vec<TxHash>> = std::sync::LazyLock::new(|| (0..40).map(hash).collect());
        let mut unsent = std::collections::VecDeque::new();
        let mut under_way: Vec<WriteId> = Vec::new();
        let mut first_sent: HashMap<u64, WriteId> = HashMap::new();
        let mut held = std::collections::HashSet::new();
        let mut steps = steps;
        // In the end everything is sent, answered and shown.
        for _ in 0..40 {
            steps.extend([Step::Recover, Step::Block, Step::AskAgain, Step::Send, Step::Reject]);
        }
        for step in steps {
            now += 1;
            match step {
                Step::Insert { name, line } => {
                    let mut job = job(name, line);
                    job.deadline = AT(now + 150);
                    unsent.push_back(writes.insert(job, AT(now)));
                    inserted += 1;
                }
                Step::Send => {
                    while let Some(number) = next_ready(&writes).or_else(|| unsent.pop_front()) {
                        let is_alone = writes.is_alone(number);
                        let carrier = if is_alone { Carrier::Alone } else { SLOT };
                        let line = writes.job(number).unwrap().line;
                        match writes.position(number) {
                            Position::Free => {}
                            Position::Behind(one, _) if one == carrier && !is_alone => {}
                            _ => {
                                writes.apply(number, Event::LineBusy, AT(now));
                                continue;
                            }
                        }
                        let is_first = !writes.job(number).unwrap().may_be_there();
                        if is_first && writes.job(number).unwrap().known_hash().is_none() {
                            let before = first_sent.insert(line, number);
                            prop_assert!(before < Some(number), "a first offer overtook another");
                        }
                        writes.sent(number, carrier, AT(now));
                        under_way.push(number);
                    }
                }
                Step::Break => for number in under_way.drain(..) {
                    writes.apply(number, Event::Broke, AT(now));
                },
                Step::Block => {
                    let hashes: Vec<_> = HASHES.iter().step_by(1 + now as usize % 3).copied().collect();
                    ended += writes.block(&hashes, AT(now)).1.iter().filter(|job| job.is_open()).count();
                }
                Step::Recover => { writes.offer_unknown(AT(now), &known(0, Some(now + 1), 9)); }
                Step::Restart => { writes.offer_accepted(AT(now + 1), AT(now)); }
                Step::AskAgain => writes.end_refusal(AT(now)),
                Step::Expire => ended += writes.take_expired(AT(now)).iter().filter(|job| job.is_open()).count(),
                Step::Reject => for number in under_way.drain(..) {
                    let job = writes.apply(number, Event::Answered, AT(now));
                    ended += usize::from(job.unwrap().is_open());
                },
                _ => if let Some(number) = under_way.pop() {
                    let event = match step {
                        Step::Full => {
                            writes.hold_until(AT(now + 3));
                            Event::Full
                        }
                        Step::Behind => Event::Behind,
                        Step::BehindBlock => Event::BehindBlock,
                        Step::Known if writes.job(number).unwrap().is_open() => Event::AlreadyThere,
                        _ => {
                            ended += usize::from(writes.job_mut(number).unwrap().close());
                            writes.accept(number, AT(now));
                            continue;
                        }
                    };
                    writes.apply(number, event, AT(now));
                }
            }
            let counted: usize = writes.counts.iter().sum();
            prop_assert_eq!(counted, writes.table.len());
            for hold in writes.take_turned() {
                let turns = if hold.is_held { held.insert(hold.line) } else { held.remove(&hold.line) };
                prop_assert!(turns, "{hold:?} twice");
            }
            for line in 0..4 {
                let states = writes.table.iter().filter(|(_, entry)| entry.job.line == line).map(|(_, entry)| entry.state);
                let waits = states.filter(|state| matches!(
                    state, WriteState::Ready | WriteState::Parked | WriteState::Refused | WriteState::FateUnknown
                ));
                prop_assert_eq!(held.contains(&Some(line)), waits.count() > 0);
            }
            let aside = writes.count(WriteState::Ready) + writes.count(WriteState::Parked);
            prop_assert_eq!(held.contains(&None), aside >= 32);
        }
        // What the node had already waits for a block that shows it.
        ended += writes.take_expired(AT(now + 1_000)).iter().filter(|job| job.is_open()).count();
        prop_assert_eq!(ended, inserted);
        prop_assert!(writes.is_empty(), "{writes:?}");
        prop_assert_eq!(writes.lines(), 0);
        let kept: usize = writes.table.iter().map(|(_, entry)| kept_bytes(&entry.job)).sum();
        prop_assert_eq!(kept, writes.kept_bytes());
    }
}
