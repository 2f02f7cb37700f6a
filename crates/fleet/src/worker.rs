//! A machine that waits on the bus for a program to start.

use std::path::PathBuf;

use async_nats::Message;
use futures_util::StreamExt as _;
use rustix::process::Signal;
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use crate::bus::{Bus, FleetError};
use crate::clock::Now;
use crate::engagement::Engagement;
use crate::job::{Job, Program};
use crate::message::{Order, Outgoing, ROLL, Request, Standing, Want, object, of_worker};

/// A worker on the bus.
#[derive(Debug)]
pub struct Worker {
    bus: Bus,
    program: Program,
    runs: PathBuf,
    engagement: Engagement,
    /// The program of the last load.
    job: Option<Job>,
}

impl Worker {
    /// A worker that puts its folders into `runs`; `host` is how people know this machine.
    pub fn new(bus: Bus, host: String, program: Program, runs: PathBuf) -> Self {
        let id = format!("{:x}-{:x}", Now::read().unix_ns, std::process::id());
        Self {
            bus,
            engagement: Engagement::new(id, host, program.version.clone()),
            program,
            runs,
            job: None,
        }
    }

    /// Waits for work until `stop`; a program that is at work is then asked to stop, and its folder brought to
    /// the store.
    ///
    /// # Errors
    /// When the bus takes no subscription.
    pub async fn serve(mut self, stop: impl Future<Output = ()>) -> Result<(), FleetError> {
        let mut rolls = self.bus.subscribe(ROLL.to_owned()).await?;
        let requests = of_worker(self.engagement.id());
        let mut requests = self.bus.subscribe(requests).await?;
        let mut ticks = interval(Engagement::TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        let mut is_stopping = false;
        while !is_stopping || self.engagement.is_at_work() {
            tokio::select! {
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    self.signal(Signal::INT);
                }
                standing = changed(&mut self.job) => {
                    // It need not be repeated sooner.
                    ticks.reset();
                    self.engagement.note(Now::read().at, standing);
                    self.tell().await;
                }
                Some(message) = rolls.next() => {
                    let present = self.engagement.present(Now::read().at, &message.payload);
                    self.reply(message, &present).await;
                }
                Some(message) = requests.next() => {
                    // It says all that a tick would.
                    ticks.reset();
                    self.act(message).await;
                }
                _ = ticks.tick() => self.tell().await,
                else => break,
            }
            if let Some(why) = self.engagement.free(Now::read().at) {
                (self.program.note)(&why);
            }
        }
        self.bus.flush().await;
        Ok(())
    }

    async fn reply(&self, message: Message, answer: &impl Serialize) {
        if let Some(reply) = message.reply {
            let answer = Outgoing::new(reply.to_string(), None, answer);
            self.bus.publish(answer).await;
        }
    }

    async fn act(&mut self, message: Message) {
        // Of another version, or of another program.
        let Ok(request) = serde_json::from_slice::<Request>(&message.payload) else {
            return;
        };
        let (now, number) = (Now::read(), request.number);
        let was_free = self.engagement.run().is_none();
        match self.engagement.request(now, request) {
            Some(Want::Play(order)) => self.start(order),
            Some(Want::Stop) => self.signal(Signal::INT),
            Some(Want::Over) => self.signal(Signal::USR2),
            _ => {}
        }
        if let Some(run) = self.engagement.run().filter(|_| was_free) {
            (self.program.note)(&format!("claimed for run {run}"));
        }
        let answer = self.engagement.answer(now, number);
        self.reply(message, &answer).await;
    }

    /// Passes a signal on to the program at work, if it did not have it yet.
    fn signal(&mut self, signal: Signal) {
        if self.engagement.is_at_work()
            && let Some(job) = &mut self.job
            && job.signal(signal)
        {
            (self.program.note)("asked to stop");
        }
    }

    fn start(&mut self, order: Order) {
        let name = object(order.load, order.number);
        let folder = self.runs.join(format!("{}-shard-{name}", order.run));
        let (load, path) = (order.load, self.program.path.display());
        let child = self.program.command(&order, &folder).spawn();
        let child = child.map_err(|error| format!("it cannot run {path}: {error}"));
        let started = child.map(|child| {
            (self.program.note)(&format!("{}, into {}", order.shard(), folder.display()));
            let bus = self.bus.clone();
            self.job = Some(Job::start(child, bus, &self.program, order, folder));
        });
        self.engagement.start(load, started);
    }

    /// Tells the coordinator how the load stands. While the server is away nothing waits for it: it is repeated.
    async fn tell(&self) {
        if self.bus.is_up()
            && let Some(told) = self.engagement.told()
        {
            self.bus.publish(told).await;
        }
    }
}

/// The load stands otherwise.
///
/// # Cancel safety
/// Nothing is lost.
async fn changed(job: &mut Option<Job>) -> Standing {
    match job {
        Some(job) => job.changed().await,
        None => std::future::pending().await,
    }
}
