//! The workers of one run: their coordinator on the bus, and their folders.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::bus::{Bus, FleetError};
use crate::clock::Now;
use crate::coordinator::{Coordinator, Member};
use crate::folder;
use crate::message::{object, of_run, sign_of_life};
use crate::watched::{Ending, Event, Stop};

/// Workers that are claimed for one run, which is one load or several after one another.
#[derive(Debug)]
pub struct Crew {
    bus: Bus,
    run: String,
    coordinator: Coordinator,
    heard: Subscriber,
    ticks: Interval,
    /// What keeps the claims.
    _claims: JoinSet<()>,
}

impl Crew {
    /// A crew without workers yet. As long as it is there, those that [`call`](Self::call) claims stay claimed; on a
    /// runtime that only works while it is waited for, for 15 s.
    ///
    /// # Errors
    /// When the bus takes no subscription.
    pub async fn new(bus: Bus, run: String) -> Result<Self, FleetError> {
        let heard = bus.subscribe(of_run(&run, "*")).await?;
        let mut claims = JoinSet::new();
        claims.spawn(keep_claims(bus.clone(), run.clone()));
        Ok(Self {
            bus,
            coordinator: Coordinator::new(Now::read(), run.clone()),
            run,
            heard,
            ticks: every(Coordinator::TICK),
            _claims: claims,
        })
    }

    /// The workers, in the order of their numbers.
    pub fn members(&self) -> &[Member] {
        self.coordinator.members()
    }

    /// [Calls](Coordinator::call) workers.
    ///
    /// # Errors
    /// As [`Coordinator::called`]. Then none is claimed.
    pub async fn call(
        &mut self,
        wanted: usize,
        version: &str,
        patience: Duration,
    ) -> Result<(), FleetError> {
        self.coordinator
            .call(Now::read(), wanted, version, patience);
        let called = self.step(|it, now| it.called(now)).await;
        if called.is_err() {
            self.end().await;
        }
        called
    }

    /// [Measures](Coordinator::compare_clocks) every clock.
    ///
    /// # Errors
    /// As [`Coordinator::compared`].
    pub async fn compare_clocks(&mut self, limit: Duration) -> Result<(), FleetError> {
        self.coordinator.compare_clocks(Now::read());
        self.step(|it, _| it.compared(limit)).await
    }

    /// Gives every worker its [order](Coordinator::play).
    ///
    /// # Errors
    /// As [`Coordinator::played`].
    pub async fn play(
        &mut self,
        environment: &[(String, String)],
        arguments: impl Fn(&Member, u32) -> Vec<String>,
    ) -> Result<(), FleetError> {
        self.coordinator.play(Now::read(), environment, arguments);
        self.step(|it, _| it.played()).await
    }

    /// Hears the workers to their end ([`Coordinator::watch`]); `turn` takes what has happened, and says whether the
    /// programs are to end.
    ///
    /// # Errors
    /// As [`Coordinator::watched`].
    pub async fn watch(
        &mut self,
        length: Duration,
        turn: &mut dyn FnMut(Vec<Event>) -> Stop,
    ) -> Result<Vec<Ending>, FleetError> {
        self.coordinator.watch(Now::read(), length);
        let watched = self.step(|coordinator, now| {
            coordinator.turn(turn);
            coordinator.watched(now)
        });
        let mut endings = watched.await?;
        for (place, ending) in endings.iter_mut().enumerate().filter(|(_, it)| it.lost) {
            if let Ok(store) = self.bus.folders(&self.run).await {
                ending.kept = store.info(self.object(place)).await.is_ok();
            }
        }
        Ok(endings)
    }

    /// Lets the workers go.
    pub async fn end(&mut self) {
        self.coordinator.release(Now::read());
        self.publish().await;
        self.bus.flush().await;
    }

    async fn publish(&mut self) {
        for message in self.coordinator.take_outgoing() {
            self.bus.publish(message).await;
        }
    }

    /// Publishes and hears until the step that was begun is over.
    async fn step<T>(&mut self, mut over: impl FnMut(&mut Coordinator, Now) -> Option<T>) -> T {
        loop {
            self.publish().await;
            if let Some(result) = over(&mut self.coordinator, Now::read()) {
                return result;
            }
            tokio::select! {
                Some(message) = self.heard.next() => {
                    self.coordinator.hear(Now::read(), &message.payload);
                }
                _ = self.ticks.tick() => self.coordinator.tick(Now::read(), self.bus.is_up()),
            }
        }
    }

    /// Fetches the folder of the worker with this place, from 0, into a folder that is not there yet. While the
    /// connection breaks it begins anew, for two minutes.
    ///
    /// # Errors
    /// When it is not in the store, or cannot be written.
    pub async fn fetch(&self, place: usize, into: &Path) -> Result<(), FleetError> {
        folder::get(&self.bus, &self.run, &self.object(place), into).await
    }

    /// The name of the folder of the worker with this place.
    fn object(&self, place: usize) -> String {
        object(self.coordinator.load, place as u32 + 1)
    }

    /// Removes the run's folders from the store.
    pub async fn forget(&self) {
        self.bus.forget(&self.run).await;
    }

    /// Fetches what is in the store of an earlier run into `into/shard-N`; gives the folders.
    ///
    /// # Errors
    /// When nothing is there, or it cannot be written.
    pub async fn fetch_later(
        bus: &Bus,
        run: &str,
        into: &Path,
    ) -> Result<Vec<PathBuf>, FleetError> {
        let store = bus.folders(run).await?;
        let listed = store.list().await;
        let mut listed = listed.map_err(FleetError::store)?;
        let mut folders = Vec::new();
        while let Some(object) = listed.next().await {
            let object = object.map_err(FleetError::store)?;
            let folder = into.join(format!("shard-{}", object.name));
            folder::get(bus, run, &object.name, &folder).await?;
            folders.push(folder);
        }
        if folders.is_empty() {
            bus.forget(run).await;
            return Err(FleetError::Workers(format!(
                "the bus has no folders of run {run}"
            )));
        }
        folders.sort();
        Ok(folders)
    }
}

/// Lets the workers of a run know that its coordinator is there.
async fn keep_claims(bus: Bus, run: String) {
    let mut ticks = every(Coordinator::SIGN_OF_LIFE);
    loop {
        ticks.tick().await;
        bus.publish(sign_of_life(&run)).await;
    }
}

fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
