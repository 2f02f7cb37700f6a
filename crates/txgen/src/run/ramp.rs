//! The course of a ramp: when it ends, and which of its steps are offered again.
//!
//! A step in which the node or the generator stood still or lacked the processor shows nothing about its rate, so it is
//! offered once more: where the next step would begin, or behind the last one after a pause. Due times up to there stay
//! what they were.

use measure::StepRow;
use measure::judge::{self, StepTerms};
use pacing::{Nanos, Schedule};

/// A ramp, seen from its closed steps.
pub(super) struct Ramp {
    schedule: Schedule,
    terms: StepTerms,
    /// Whether it ends when the target is saturated.
    until_saturated: bool,
    /// Whether steps may be offered again.
    repeats: bool,
    steps: Vec<StepRow>,
    /// Until when every shard is taken to know the schedule as it was revised last.
    known_at: Nanos,
    /// The steps of the ramp that were offered again, or are going to be.
    repeated: Vec<u32>,
    over: bool,
}

/// What a ramp asks for.
#[derive(Debug)]
pub(super) enum Course {
    /// It goes on as planned.
    Same,
    /// It goes on by this schedule, which is the old one up to `from`.
    Revised {
        schedule: Schedule,
        from: Nanos,
        text: String,
    },
    /// Nothing more is offered than is planned.
    Planned,
    /// It ends.
    Ended(String),
    /// It ends, as its steps cannot be judged.
    Blind(String),
}

impl Ramp {
    /// The ramp of a schedule. `repeats`: whether a longer one could be offered; other generators would not
    /// know of it, and a workload may have no more transactions.
    pub(super) fn new(
        schedule: Schedule,
        (until_saturated, repeats): (bool, bool),
        terms: StepTerms,
    ) -> Self {
        let profile = schedule.profile();
        let steps_are_kept = profile.duration().is_none() || profile.step_count() < MOST_STEPS;
        Self {
            repeats: repeats && profile.name() == "ramp" && steps_are_kept,
            schedule,
            terms,
            until_saturated,
            steps: Vec::new(),
            known_at: Nanos::ZERO,
            repeated: Vec::new(),
            over: false,
        }
    }

    /// Whether the offering may go on behind the end of the schedule.
    pub(super) const fn may_go_on(&self) -> bool {
        self.repeats
    }

    /// Takes the rows of steps that were judged, and decides how the ramp goes on; `unread` is how far behind blocks are
    /// read, where a step waits for them in vain.
    pub(super) fn look(&mut self, judged: &[StepRow], unread: Option<Nanos>, now: Nanos) -> Course {
        self.steps.extend_from_slice(judged);
        if self.over || now < self.known_at || !(self.repeats || self.until_saturated) {
            return Course::Same;
        }
        let judgement = judge::ramp(&self.steps, self.terms);
        // One that fails a second time shows that the others would, too.
        let again = judgement
            .again
            .filter(|_| self.repeats && !judgement.saturated);
        let is_new = |step: &u32| !self.repeated.contains(step);
        let ends = judgement.saturated || (judgement.stalled && again.is_none());
        if self.until_saturated && ends {
            self.over = true;
            return Course::Ended(judgement.reason);
        }
        if let Some(unread) = unread.filter(|_| self.until_saturated) {
            self.over = true;
            return Course::Blind(format!(
                "cannot tell what the node sustains: blocks are read {:.0} s behind it (run txgen nearer to the node, or \
                 give an endpoint that gives its blocks sooner)",
                unread.as_secs_f64()
            ));
        }
        match again.filter(is_new) {
            Some(step) => self.repeat(step, now),
            None if self.is_judged_whole() || self.is_awaited_in_vain(now) => {
                self.over = true;
                Course::Planned
            }
            None => Course::Same,
        }
    }

    /// Offers a step again where the next one that no shard has come near would begin.
    fn repeat(&mut self, step: u32, now: Nanos) -> Course {
        let profile = self.schedule.profile();
        let from = now.saturating_add(NOTICE);
        let end = profile.duration().unwrap_or(Nanos::MAX);
        let mut before = profile.step_at(from).index + 1;
        // Behind those that are offered again already.
        while profile.step(before).is_some_and(|it| it.again_of.is_some()) {
            before += 1;
        }
        let pause = from.saturating_sub(end);
        let pause = (pause > Nanos::ZERO).then_some(pause);
        self.repeated.push(step);
        let Ok(profile) = profile.with_again(step, before, pause) else {
            return Course::Same;
        };
        let place = before + u32::from(pause.is_some());
        let begins = profile.step(place).map_or(0.0, |it| it.start.as_secs_f64());
        self.schedule = Schedule::new(profile, self.schedule.arrivals());
        self.known_at = from;
        Course::Revised {
            schedule: self.schedule.clone(),
            from,
            text: format!(
                "step {step} says nothing of its rate, because the node or the generator stood still or lacked the processor: it is offered again from {begins:.1} s on"
            ),
        }
    }

    /// Whether the last row is so late that it is not waited for: a follower that waits for a block of a frozen
    /// node holds all rows back.
    fn is_awaited_in_vain(&self, now: Nanos) -> bool {
        let end = self.schedule.profile().duration();
        end.is_some_and(|end| now >= end.saturating_add(LONGEST_AWAITED))
    }

    /// Whether the last step of the schedule has its row.
    fn is_judged_whole(&self) -> bool {
        let profile = self.schedule.profile();
        let last = self.steps.last().map(|step| step.step + 1);
        profile.duration().is_some() && last >= Some(profile.step_count())
    }
}

/// Every shard looks for orders each 10 ms, and the recorder opens what is ahead by a second at most.
const NOTICE: Nanos = Nanos::from_secs(2);
/// Where blocks take less than 10 s a step is judged so long after its end at the latest, where rows come at all; on slower
/// chains the last step is not offered again.
const LONGEST_AWAITED: Nanos = Nanos::from_secs(15);
/// The rows of more steps are not kept, so that the last one would be awaited in vain.
const MOST_STEPS: u32 = 5_000;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use measure::{Cohort, Counts};
    use pacing::{Arrivals, Profile, Rate, SignedRate};

    use super::*;

    const TERMS: StepTerms = StepTerms {
        followed: true,
        strict: false,
    };

    fn per_second(rate: u64) -> Rate {
        Rate::per_second(rate).unwrap()
    }

    /// 100/s, and 100/s more every ten seconds.
    fn schedule(to: Option<u64>) -> Schedule {
        let step = SignedRate::rise(per_second(100));
        let every = Nanos::from_secs(10);
        let profile = Profile::steps(per_second(100), step, every, to.map(per_second));
        Schedule::new(profile.unwrap(), Arrivals::Even)
    }

    fn ramp(to: Option<u64>) -> Ramp {
        Ramp::new(schedule(to), (to.is_none(), true), TERMS)
    }

    /// The row of a step of the schedule as it is by now, of which this share was taken.
    fn row(ramp: &Ramp, index: u32, share: f64, gap_s: f64) -> StepRow {
        let step = ramp.schedule.profile().step(index).unwrap();
        let offered = step.rate.as_f64() * 10.0;
        let taken = (offered * share) as u64;
        StepRow {
            step: index,
            again_of: step.again_of,
            start_s: step.start.as_secs_f64(),
            end_s: step.end.unwrap().as_secs_f64(),
            rate_tps: step.rate.as_f64(),
            pause: step.pause,
            counts: Counts {
                offered: offered as u64,
                accepted: taken,
                committed: taken,
                blocks: 10,
                ..Counts::default()
            },
            cohort: Cohort {
                due_sent: offered as u64,
                due_accepted: taken,
                due_committed: taken,
                ..Cohort::default()
            },
            awaited_s: Some(1.5),
            answer_gap_s: gap_s,
            block_gap_s: gap_s,
            ..StepRow::default()
        }
    }

    fn sustained(ramp: &Ramp, index: u32) -> StepRow {
        row(ramp, index, 1.0, 1.0)
    }

    fn stalled(ramp: &Ramp, index: u32) -> StepRow {
        row(ramp, index, 0.6, 4.0)
    }

    fn failed(ramp: &Ramp, index: u32) -> StepRow {
        row(ramp, index, 0.7, 1.0)
    }

    /// Looks at a row two seconds after the step's end.
    fn look(ramp: &mut Ramp, row: &StepRow) -> Course {
        let at = Nanos::from_secs(row.end_s as u64 + 2);
        ramp.look(std::slice::from_ref(row), None, at)
    }

    fn names(ramp: &Ramp, count: usize) -> Vec<(f64, Option<u32>)> {
        let steps = ramp.schedule.profile().iter_steps().take(count);
        steps
            .map(|step| (step.rate.as_f64(), step.again_of))
            .collect()
    }

    #[test]
    fn a_step_that_stalls_is_offered_again_after_the_one_under_way() {
        for to in [None, Some(500)] {
            let mut ramp = ramp(to);
            for index in 0..2 {
                let row = sustained(&ramp, index);
                assert!(matches!(look(&mut ramp, &row), Course::Same));
            }
            let row = stalled(&ramp, 2);
            let Course::Revised {
                schedule: revised,
                from,
                text,
            } = look(&mut ramp, &row)
            else {
                panic!("it goes on as planned");
            };
            assert_eq!(
                text,
                "step 2 says nothing of its rate, because the node or the generator stood still or lacked the processor: it is offered again from 40.0 s on"
            );
            let expected = [
                (100.0, None),
                (200.0, None),
                (300.0, None),
                (400.0, None),
                (300.0, Some(2)),
                (500.0, None),
            ];
            assert_eq!(names(&ramp, 6), expected);
            let shard = |schedule: &Schedule| schedule.shard(1, NonZeroU32::new(3).unwrap());
            let before = Nanos::from_secs(40);
            assert!(from < before);
            let was: Vec<_> = shard(&schedule(to))
                .take_while(|due| due.at < before)
                .collect();
            let is: Vec<_> = shard(&revised).take_while(|due| due.at < before).collect();
            assert_eq!(was, is);
            // Sustained now, the ramp goes on, and ends where it is saturated.
            for index in 3..5 {
                let row = sustained(&ramp, index);
                assert!(matches!(look(&mut ramp, &row), Course::Same));
            }
        }
    }

    #[test]
    fn a_step_that_is_too_much_is_not_offered_again() {
        let mut ramp = ramp(None);
        let rows = [sustained(&ramp, 0), failed(&ramp, 1)];
        for row in &rows {
            assert!(matches!(look(&mut ramp, row), Course::Same));
        }
        let row = failed(&ramp, 2);
        assert!(matches!(look(&mut ramp, &row), Course::Ended(_)));
        assert!(
            matches!(look(&mut ramp, &row), Course::Same),
            "it has ended"
        );
    }

    #[test]
    fn a_step_that_stalls_twice_ends_the_ramp_and_one_with_a_last_step_repeats_no_other() {
        for to in [None, Some(800)] {
            let mut ramp = ramp(to);
            let row = stalled(&ramp, 0);
            assert!(matches!(look(&mut ramp, &row), Course::Revised { .. }));
            let row = stalled(&ramp, 1);
            // The first one is under way.
            assert!(matches!(look(&mut ramp, &row), Course::Same));
            let row = stalled(&ramp, 2);
            assert_eq!(row.again_of, Some(0));
            match (to, look(&mut ramp, &row)) {
                (None, Course::Ended(reason)) => {
                    assert!(reason.contains("already the first step"), "{reason}");
                }
                (Some(_), Course::Same) => assert_eq!(ramp.schedule.profile().step_count(), 9),
                (_, other) => panic!("{other:?}"),
            }
        }
    }

    /// Such a ramp went on for ever: each new step failed, and so there was always one more to offer again.
    #[test]
    fn a_ramp_ends_whatever_its_steps_fail_by_when_they_are_offered_again() {
        let kept = |ramp: &Ramp, index: u32| {
            let mut row = row(ramp, index, 0.5, 1.0);
            row.cohort.due_sent = row.cohort.due_accepted;
            row.cohort.due_behind = row.counts.offered - row.cohort.due_sent;
            row
        };
        let unclear = |ramp: &Ramp, index: u32| {
            let mut row = row(ramp, index, 0.9, 1.0);
            row.cohort.due_accepted = row.counts.offered;
            row.counts.blocks = 2;
            row
        };
        type Fails = fn(&Ramp, u32) -> StepRow;
        for (label, fails) in [
            ("not offered", kept as Fails),
            ("not clear", unclear),
            ("not sustained", stalled),
        ] {
            for (to, most) in [(None, 12), (Some(900), 13)] {
                let mut ramp = ramp(to);
                let mut index = 0;
                let ended = loop {
                    let pauses = |it: pacing::Step| it.pause;
                    let row = match ramp.schedule.profile().step(index) {
                        Some(step) if index < 2 || pauses(step) => sustained(&ramp, index),
                        _ => fails(&ramp, index),
                    };
                    match look(&mut ramp, &row) {
                        Course::Same | Course::Revised { .. } => index += 1,
                        ended => break ended,
                    }
                    assert!(index <= most, "{label}: it goes on");
                };
                let is_whole = matches!(ended, Course::Planned);
                assert_eq!(is_whole, to.is_some(), "{label}: {ended:?}");
                if let Course::Ended(reason) = ended {
                    assert!(reason.contains("up to step 1 (200/s)"), "{reason}");
                }
            }
        }
    }

    #[test]
    fn the_last_step_is_offered_again_after_a_pause_and_then_the_ramp_is_over() {
        let mut ramp = ramp(Some(300));
        for index in 0..2 {
            let row = sustained(&ramp, index);
            assert!(matches!(look(&mut ramp, &row), Course::Same));
        }
        let row = stalled(&ramp, 2);
        assert!(matches!(look(&mut ramp, &row), Course::Revised { .. }));
        assert_eq!(names(&ramp, 9)[3..], [(0.0, None), (300.0, Some(2))]);
        let pause = ramp.schedule.profile().step(3).unwrap();
        assert_eq!(pause.end, Some(Nanos::from_secs(34)));
        let pause = self::row(&ramp, 3, 1.0, 0.0);
        assert!(matches!(look(&mut ramp, &pause), Course::Same));
        let row = sustained(&ramp, 4);
        assert!(matches!(look(&mut ramp, &row), Course::Planned));
    }

    #[test]
    fn a_ramp_without_a_stall_ends_as_it_is_planned() {
        let mut ramp = ramp(Some(200));
        let row = sustained(&ramp, 0);
        assert!(matches!(look(&mut ramp, &row), Course::Same));
        let row = sustained(&ramp, 1);
        assert!(matches!(look(&mut ramp, &row), Course::Planned));
    }

    #[test]
    fn a_ramp_whose_last_rows_do_not_come_ends_all_the_same() {
        let mut ramp = ramp(Some(200));
        assert!(matches!(
            ramp.look(&[], None, Nanos::from_secs(34)),
            Course::Same
        ));
        assert!(matches!(
            ramp.look(&[], None, Nanos::from_secs(35)),
            Course::Planned
        ));
    }

    /// Such a ramp went on until its rates ended.
    #[test]
    fn a_ramp_without_an_end_ends_when_its_steps_cannot_be_judged() {
        let behind = Some(Nanos::from_secs(41));
        for (to, ends) in [(None, true), (Some(500), false)] {
            let mut ramp = ramp(to);
            let row = sustained(&ramp, 0);
            assert!(matches!(look(&mut ramp, &row), Course::Same));
            match ramp.look(&[], behind, Nanos::from_secs(50)) {
                Course::Blind(reason) if ends => assert!(reason.contains("41 s"), "{reason}"),
                Course::Same if !ends => {}
                other => panic!("{other:?}"),
            }
        }
        let mut ramp = ramp(None);
        let rows = [sustained(&ramp, 0), failed(&ramp, 1), failed(&ramp, 2)];
        let found = ramp.look(&rows, behind, Nanos::from_secs(50));
        assert!(matches!(found, Course::Ended(_)), "what was judged counts");
    }

    #[test]
    fn a_part_of_a_load_keeps_the_schedule_that_was_agreed_on() {
        let mut part = Ramp::new(schedule(Some(500)), (false, false), TERMS);
        let row = stalled(&part, 0);
        assert!(matches!(look(&mut part, &row), Course::Same));
        assert!(!part.may_go_on());
    }
}
