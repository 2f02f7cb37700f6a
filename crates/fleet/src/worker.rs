//! A machine that waits on the bus for a program to start.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::Message;
use futures_util::StreamExt as _;
use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::bus::{Bus, FleetError, now_ns};
use crate::job::{Job, Program};
use crate::message::{
    Answer, Order, PROTOCOL, Present, ROLL, Request, Roll, Told, object, of_run, of_worker,
};

/// A worker on the bus.
#[derive(Debug)]
pub struct Worker {
    bus: Bus,
    id: String,
    host: String,
    program: Program,
    runs: PathBuf,
    claim: Option<Claim>,
}

/// For which run a worker is kept.
#[derive(Debug)]
struct Claim {
    run: String,
    /// Without a message of its coordinator until then, and without a program at work, the worker is free again.
    until: Instant,
    /// The last load.
    job: Option<Job>,
    /// Its coordinator wants no more of it.
    is_released: bool,
}

impl Claim {
    fn of(run: String) -> Self {
        Self {
            run,
            until: Instant::now() + CLAIM,
            job: None,
            is_released: false,
        }
    }

    /// Whether its last load is this one.
    fn has(&self, load: u32) -> bool {
        self.job.as_ref().is_some_and(|job| job.load() == load)
    }

    fn is_at_work(&self) -> bool {
        self.job.as_ref().is_some_and(|job| !job.is_over())
    }

    /// The coordinator of this run is there.
    fn hear_of(&mut self, run: &str, now: Instant) {
        if self.run == run {
            self.until = now + CLAIM;
        }
    }

    /// The coordinator of this run wants no more of the worker.
    fn release(&mut self, run: &str) {
        self.is_released |= self.run == run;
    }

    /// Whether it has no program at work, and nobody who wants one.
    fn is_over(&self, now: Instant) -> bool {
        !self.is_at_work() && (self.is_released || self.until <= now)
    }
}

impl Worker {
    /// A worker that puts its folders into `runs`; `host` is how people know this machine.
    pub fn new(bus: Bus, host: String, program: Program, runs: PathBuf) -> Self {
        let id = format!("{:x}-{:x}", now_ns(), std::process::id());
        Self {
            bus,
            id,
            host,
            program,
            runs,
            claim: None,
        }
    }

    /// Waits for work until `stop`; a program that is at work is then asked to stop, and its folder brought to
    /// the store.
    ///
    /// # Errors
    /// When the bus takes no subscription.
    pub async fn serve(mut self, stop: impl Future<Output = ()>) -> Result<(), FleetError> {
        let mut rolls = self.bus.subscribe(ROLL.to_owned()).await?;
        let mut requests = self.bus.subscribe(of_worker(&self.id)).await?;
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        let mut is_stopping = false;
        while !is_stopping || self.claim.as_ref().is_some_and(Claim::is_at_work) {
            tokio::select! {
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    self.signal(None, Signal::INT);
                }
                () = changed(&mut self.claim) => {
                    // It need not be repeated sooner.
                    ticks.reset();
                    self.tell().await;
                }
                Some(message) = rolls.next() => self.present(message).await,
                Some(message) = requests.next() => self.answer(message).await,
                _ = ticks.tick() => self.tell().await,
                else => break,
            }
            if let Some(claim) = self.claim.take_if(|it| it.is_over(Instant::now())) {
                (self.program.note)(&format!("free again after run {}", claim.run));
            }
        }
        self.bus.flush().await;
        Ok(())
    }

    async fn present(&mut self, message: Message) {
        if let Ok(roll) = serde_json::from_slice::<Roll>(&message.payload) {
            let claim = self.claim.iter_mut();
            claim.for_each(|it| it.hear_of(&roll.run, Instant::now()));
        }
        let present = Present {
            id: self.id.clone(),
            host: self.host.clone(),
            version: self.program.version.clone(),
            protocol: PROTOCOL,
            run: self.claim.as_ref().map(|claim| claim.run.clone()),
        };
        if let Some(reply) = message.reply {
            self.bus.publish(reply.to_string(), &present, None).await;
        }
    }

    async fn answer(&mut self, message: Message) {
        let received_ns = now_ns();
        let answer = match serde_json::from_slice(&message.payload) {
            Ok(request) => self.act(request, received_ns),
            Err(error) => Answer::Refused(format!("it does not understand the request: {error}")),
        };
        if let Some(reply) = message.reply {
            self.bus.publish(reply.to_string(), &answer, None).await;
        }
    }

    fn act(&mut self, request: Request, received_ns: i64) -> Answer {
        match request {
            Request::Clock => Answer::Clock {
                received_ns,
                sent_ns: now_ns(),
            },
            Request::Claim { run } => match &self.claim {
                // Its coordinator may not have heard the first answer.
                Some(claim) if claim.run != run || claim.is_at_work() => {
                    Answer::Refused(format!("it is at work for run {}", claim.run))
                }
                Some(_) => Answer::Done,
                None => {
                    (self.program.note)(&format!("claimed for run {run}"));
                    self.claim = Some(Claim::of(run));
                    Answer::Done
                }
            },
            Request::Play(order) => match self.claim.as_ref().filter(|it| it.run == order.run) {
                None => Answer::Refused("it is not claimed for this run".to_owned()),
                // Its coordinator did not hear the first answer.
                Some(claim) if claim.has(order.load) => Answer::Done,
                Some(claim) if claim.is_at_work() => {
                    Answer::Refused("it has not ended the load before this one".to_owned())
                }
                Some(_) => self.start(order),
            },
            Request::Stop { run } => self.signal(Some(&run), Signal::INT),
            Request::Over { run } => self.signal(Some(&run), Signal::USR2),
            Request::Release { run } => {
                self.claim.iter_mut().for_each(|it| it.release(&run));
                Answer::Done
            }
        }
    }

    /// Passes a signal on to the program at work, for this run or for any, if it did not have it yet.
    fn signal(&mut self, run: Option<&str>, signal: Signal) -> Answer {
        if let Some(claim) = &mut self.claim
            && run.is_none_or(|run| run == claim.run)
            && let Some(job) = &mut claim.job
            && job.signal(signal)
        {
            (self.program.note)("asked to stop");
        }
        Answer::Done
    }

    fn start(&mut self, order: Order) -> Answer {
        let name = object(order.load, order.number);
        let folder = self.runs.join(format!("{}-shard-{name}", order.run));
        let child = match self.program.command(&order, &folder).spawn() {
            Ok(child) => child,
            Err(error) => {
                let path = self.program.path.display();
                return Answer::Refused(format!("it cannot run {path}: {error}"));
            }
        };
        (self.program.note)(&format!(
            "run {}, shard {}, into {}",
            order.run,
            order.number,
            folder.display()
        ));
        if let Some(claim) = &mut self.claim {
            claim.job = Some(Job::start(child, self.bus.clone(), order, folder));
        }
        Answer::Done
    }

    /// Tells the coordinator how the load stands. While the server is away nothing waits for it: it is repeated.
    async fn tell(&self) {
        if let Some(Claim {
            run,
            job: Some(job),
            ..
        }) = &self.claim
            && self.bus.is_up()
        {
            let told = Told {
                worker: self.id.clone(),
                load: job.load(),
                standing: job.standing(),
            };
            self.bus.publish(of_run(run), &told, None).await;
        }
    }
}

/// The load stands otherwise.
///
/// # Cancel safety
/// Nothing is lost.
async fn changed(claim: &mut Option<Claim>) {
    if let Some(claim) = claim
        && let Some(job) = &mut claim.job
    {
        job.changed().await;
        // What a load ended with is repeated as long as a claim holds, whenever that is.
        claim.until = Instant::now() + CLAIM;
    } else {
        std::future::pending::<()>().await;
    }
}

/// How often a worker at work says that it is there.
const TICK: Duration = Duration::from_secs(1);
/// How long a claim holds without a word of its coordinator.
const CLAIM: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_holds_as_long_as_its_own_coordinator_is_heard_and_ends_by_its_word_alone() {
        let mut claim = Claim::of("one".to_owned());
        let ends = claim.until;
        claim.hear_of("another", ends);
        claim.release("another");
        assert!(claim.is_over(ends) && !claim.is_over(ends - TICK));
        claim.hear_of("one", ends);
        assert!(!claim.is_over(ends) && claim.is_over(ends + CLAIM));
        claim.release("one");
        assert!(claim.is_over(ends));
    }
}
