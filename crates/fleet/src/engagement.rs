//! Which coordinator a worker works for, and the state of that work, without a bus, a clock and a program.

use std::time::{Duration, Instant};

use crate::clock::Now;
use crate::message::{
    Answer, Outgoing, PROTOCOL, Present, Request, Roll, Standing, Told, Want, of_run,
};

/// A worker: for which run it is kept, and how the last load of that stands.
#[derive(Debug)]
pub struct Engagement {
    host: String,
    version: String,
    /// What it answers, but for which request.
    told: Told,
    /// Without a message of its coordinator until then, and without a program at work, it is free again.
    until: Option<Instant>,
    /// Its coordinator wants no more of it.
    is_released: bool,
}

impl Engagement {
    /// How often [`told`](Self::told) is to be published where nothing has changed and nobody has asked.
    pub const TICK: Duration = Duration::from_secs(2);

    /// A worker of no run, which hears what is published on [`ROLL`](crate::message::ROLL) and, by its id, on
    /// [`of_worker`](crate::message::of_worker); `host` is how people know its machine.
    pub fn new(id: String, host: String, version: String) -> Self {
        Self {
            host,
            version,
            told: Told {
                worker: id,
                ..Told::default()
            },
            until: None,
            is_released: false,
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.told.worker
    }

    /// For which run it is kept.
    pub fn run(&self) -> Option<&str> {
        self.told.run.as_deref()
    }

    /// Whether it has a program at work, or its folder on the way.
    pub fn is_at_work(&self) -> bool {
        self.told.load > 0 && self.told.refused.is_none() && !self.told.standing.is_over()
    }

    /// A coordinator asks which workers are there, or shows that it is there itself.
    pub fn present(&mut self, now: Instant, roll: &[u8]) -> Present {
        if let Ok(Roll { run }) = serde_json::from_slice(roll)
            && self.told.run == Some(run)
        {
            self.until = Some(now + CLAIM);
        }
        Present {
            id: self.told.worker.clone(),
            host: self.host.clone(),
            version: self.version.clone(),
            protocol: PROTOCOL,
            run: self.told.run.clone(),
        }
    }

    /// A request has come in: what is to be done, before the [answer](Self::answer) is given. A program that is started
    /// is to be noted with [`start`](Self::start).
    pub fn request(&mut self, now: Now, request: Request) -> Option<Want> {
        if request.want == Want::Stay {
            self.told.run.get_or_insert_with(|| request.run.clone());
        }
        if self.told.run.as_ref() != Some(&request.run) {
            return None;
        }
        self.until = Some(now.at + CLAIM);
        let is_new = match &request.want {
            // It may have come before.
            Want::Play(order) => order.load != self.told.load && !self.is_at_work(),
            Want::Stop | Want::Over => self.is_at_work(),
            Want::Stay => false,
            Want::Leave => {
                self.is_released = true;
                false
            }
        };
        is_new.then_some(request.want)
    }

    /// An order was carried out, or why not.
    pub fn start(&mut self, load: u32, started: Result<(), String>) {
        self.told.load = load;
        self.told.refused = started.err();
        self.told.standing = Standing::default();
    }

    /// The load stands otherwise.
    pub fn note(&mut self, now: Instant, standing: Standing) {
        self.told.standing = standing;
        // What a load ended with is repeated as long as a claim holds, whenever that is.
        self.until = Some(now + CLAIM);
    }

    /// How the last load stands, for the coordinator of its run. Any one message may be lost.
    pub fn told(&self) -> Option<Outgoing> {
        let run = self.run().filter(|_| self.told.load > 0)?;
        Some(Outgoing::new(of_run(run, "told"), None, &self.told))
    }

    /// What a request that came now is answered.
    pub fn answer(&self, now: Now, number: u64) -> Told {
        let at_ns = now.unix_ns;
        Told {
            answer: Some(Answer { number, at_ns }),
            ..self.told.clone()
        }
    }

    /// Makes it free again, if it has no program at work and no coordinator that wants one: from which one, for people.
    pub fn free(&mut self, now: Instant) -> Option<String> {
        if self.is_at_work() || !self.is_released && self.until.is_none_or(|until| now < until) {
            return None;
        }
        let told = std::mem::take(&mut self.told);
        self.told.worker = told.worker;
        let is_released = std::mem::take(&mut self.is_released);
        self.until = None;
        let (run, silence) = (told.run?, CLAIM.as_secs());
        Some(match (is_released, told.load) {
            (true, _) => format!("free again after run {run}"),
            (false, 0) => format!("free again: nothing was heard of run {run} for {silence} s"),
            (false, _) => format!(
                "free again: the coordinator of run {run} was not heard for {silence} s; `txgen fleet --fetch {run}` \
                 fetches what is kept of it"
            ),
        })
    }
}

/// How long a claim holds without a message of its coordinator.
const CLAIM: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{End, Folder, Order};

    fn ask(worker: &mut Engagement, at: Instant, run: &str, want: Want) -> (Option<Want>, Told) {
        let (now, run, number) = (Now { at, unix_ns: 7 }, run.to_owned(), 3);
        let task = worker.request(now, Request { run, number, want });
        let told = worker.answer(now, number);
        assert_eq!(told.answer, Some(Answer { number, at_ns: 7 }));
        (task, told)
    }

    fn roll(run: &str) -> Vec<u8> {
        serde_json::to_vec(&Roll { run: run.into() }).unwrap()
    }

    fn worker() -> Engagement {
        Engagement::new("id".into(), "host".into(), "1.0".into())
    }

    #[test]
    fn a_claim_holds_as_long_as_its_own_coordinator_is_heard_and_ends_by_its_word_alone() {
        let (mut worker, began) = (worker(), Instant::now());
        let (_, told) = ask(&mut worker, began, "one", Want::Stay);
        assert_eq!(told.run.as_deref(), Some("one"));
        let ends = began + CLAIM;
        worker.present(ends, &roll("another"));
        for want in [Want::Stay, Want::Leave] {
            let (_, told) = ask(&mut worker, ends, "another", want);
            assert_eq!(told.run.as_deref(), Some("one"));
        }
        assert_eq!(worker.free(ends - Engagement::TICK), None);
        worker.present(ends, &roll("one"));
        assert_eq!(worker.free(ends), None);
        let forsaken = worker.free(ends + CLAIM).unwrap();
        assert!(forsaken.contains("for 15 s"), "{forsaken}");
        ask(&mut worker, ends, "one", Want::Stay);
        ask(&mut worker, ends, "one", Want::Leave);
        let released = worker.free(ends).unwrap();
        assert_eq!(released, "free again after run one");
    }

    #[test]
    fn an_order_is_carried_out_once_and_the_next_when_the_load_before_has_ended() {
        let (mut worker, now) = (worker(), Instant::now());
        let order = |load| Order {
            run: "one".into(),
            load,
            number: 1,
            arguments: Vec::new(),
            environment: Vec::new(),
        };
        let ask = |worker: &mut _, want| {
            let (task, told) = ask(worker, now, "one", want);
            (task, told.load)
        };
        assert_eq!(
            ask(&mut worker, Want::Play(order(1))),
            (None, 0),
            "unclaimed"
        );
        ask(&mut worker, Want::Stay);
        let (task, _) = ask(&mut worker, Want::Play(order(1)));
        assert_eq!(task, Some(Want::Play(order(1))));
        worker.start(1, Ok(()));
        assert_eq!(ask(&mut worker, Want::Play(order(1))), (None, 1), "again");
        assert_eq!(ask(&mut worker, Want::Play(order(2))), (None, 1), "at work");
        assert_eq!(ask(&mut worker, Want::Stop), (Some(Want::Stop), 1));
        let end = End {
            code: Some(0),
            words: Vec::new(),
            folder: Folder::Kept,
        };
        let end = Some(end);
        worker.note(now, Standing { line: None, end });
        assert_eq!(ask(&mut worker, Want::Stop), (None, 1));
        let (task, _) = ask(&mut worker, Want::Play(order(2)));
        assert_eq!(task, Some(Want::Play(order(2))));
        worker.start(2, Err("no such program".into()));
        assert!(!worker.is_at_work());
    }
}
