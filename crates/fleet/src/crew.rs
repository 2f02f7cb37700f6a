//! The workers of one run, and what their coordinator does with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::Subscriber;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::bus::{Bus, FleetError};
use crate::clock::{Clock, exchanges, follow_clock};
use crate::folder;
use crate::message::{
    Answer, Order, PROTOCOL, Present, ROLL, Request, Roll, Told, build, object, of_run, of_worker,
};
use crate::watched::{Ending, Event, GIVE_UP, TICK, Watched, add_silence};

/// One worker of a crew.
#[derive(Debug)]
pub struct Member {
    id: String,
    /// Its machine.
    pub host: String,
    /// Its clock against that of this machine.
    pub clock: Clock,
}

/// Whether the user wants to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// No.
    No,
    /// The load is over: one of the programs has ended it.
    Over,
    /// Programs are to stop and to keep what they have.
    Orderly,
    /// No worker is waited for.
    AtOnce,
}

/// Workers that are claimed for one run, which is one load or several after one another.
#[derive(Debug)]
pub struct Crew {
    bus: Bus,
    run: String,
    /// Which load is, or was, under way; 0 before the first.
    load: u32,
    members: Vec<Member>,
    /// Workers that were asked to be kept for the run, whether or not their answer was heard.
    asked: BTreeSet<String>,
    told: Subscriber,
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
        let told = bus.subscribe(of_run(&run)).await?;
        let mut claims = JoinSet::new();
        claims.spawn(keep_claims(bus.clone(), run.clone()));
        Ok(Self {
            bus,
            run,
            load: 0,
            members: Vec::new(),
            asked: BTreeSet::new(),
            told,
            _claims: claims,
        })
    }

    /// Claims workers of this version until there are `wanted`, waiting for them at most `patience`. Those that do not
    /// answer any more are replaced.
    ///
    /// # Errors
    /// When there are too few: who is there and why not. Then none is claimed.
    pub async fn call(
        &mut self,
        wanted: usize,
        version: &str,
        patience: Duration,
    ) -> Result<(), FleetError> {
        let until = Instant::now() + patience;
        let mut seen: BTreeMap<String, Present> = BTreeMap::new();
        let mut is_first = true;
        loop {
            let present = self.roll().await?;
            if std::mem::take(&mut is_first) {
                self.members
                    .retain(|member| present.iter().any(|it| it.id == member.id));
            }
            for present in present {
                let is_member = self.members.iter().any(|member| member.id == present.id);
                // Kept for this run, but its answer came too late. Another coordinator's run may have the same name.
                let is_kept = present.run.as_deref() == Some(self.run.as_str())
                    && self.asked.contains(&present.id);
                let usable = present.version == version
                    && present.protocol == PROTOCOL
                    && (present.run.is_none() || is_kept)
                    && !is_member;
                if usable && self.members.len() < wanted {
                    self.claim(&present).await;
                }
                seen.insert(present.id.clone(), present);
            }
            if self.members.len() == wanted {
                return Ok(());
            }
            if Instant::now() >= until {
                let error = self.too_few(wanted, version, &seen);
                self.release().await;
                return Err(error);
            }
        }
    }

    /// Who answers within a second.
    async fn roll(&self) -> Result<Vec<Present>, FleetError> {
        let (inbox, mut answers) = self.bus.inbox().await?;
        let roll = Roll {
            run: self.run.clone(),
        };
        self.bus.publish(ROLL.to_owned(), &roll, Some(inbox)).await;
        let until = Instant::now() + ROLL_CALL;
        let mut present = Vec::new();
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, answers.next()).await {
            // Another program on these subjects is none of ours.
            if let Ok(worker) = serde_json::from_slice(&answer.payload) {
                present.push(worker);
            }
        }
        Ok(present)
    }

    async fn claim(&mut self, present: &Present) {
        self.asked.insert(present.id.clone());
        let claim = Request::Claim {
            run: self.run.clone(),
        };
        if let Some(Answer::Done) = self.bus.ask(of_worker(&present.id), &claim).await {
            self.members.push(Member {
                id: present.id.clone(),
                host: present.host.clone(),
                clock: Clock::default(),
            });
        }
    }

    fn too_few(
        &self,
        wanted: usize,
        version: &str,
        seen: &BTreeMap<String, Present>,
    ) -> FleetError {
        let mut text = format!(
            "{wanted} workers are wanted, and {} could be had",
            self.members.len()
        );
        let own = build(version, PROTOCOL);
        for worker in seen.values() {
            let host = &worker.host;
            if worker.build() != own {
                text += &format!("; {host} has {}, this is {own}", worker.build());
            } else if let Some(run) = worker.run.as_ref().filter(|run| **run != self.run) {
                text += &format!("; {host} is at work for run {run}");
            }
        }
        text += "; start them with `txgen worker --nats URL`";
        FleetError::Workers(text)
    }

    /// The workers, in the order of their numbers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Measures every clock, for the next load.
    ///
    /// # Errors
    /// When one does not answer, was set meanwhile, or is known to no better than `limit`.
    pub async fn compare_clocks(&mut self, limit: Duration) -> Result<(), FleetError> {
        let asked = self
            .members
            .iter()
            .map(|member| exchanges(&self.bus, &member.id, FIRST_EXCHANGES));
        for (exchanges, member) in join_all(asked).await.into_iter().zip(&mut self.members) {
            member.clock = Clock::default();
            member.clock.add(&exchanges);
            let refuse = |problem: String| FleetError::Worker {
                host: member.host.clone(),
                problem,
            };
            let Some(offset) = member.clock.first() else {
                return Err(refuse("it does not answer any more".to_owned()));
            };
            if offset.is_empty() {
                return Err(refuse("its clock was set just now; try again".to_owned()));
            }
            if offset.error_ns().unsigned_abs() > limit.as_nanos() as u64 {
                return Err(refuse(format!(
                    "its clock is known to ± {:.1} ms only, and {} ms are the limit: the way to the NATS server is \
                     too long or too busy",
                    offset.error_ns() as f64 / 1e6,
                    limit.as_millis()
                )));
            }
        }
        Ok(())
    }

    /// Gives every worker its order for the next load: the program's arguments, by the worker and its number, which is
    /// its place from 1, and the variables of its environment.
    ///
    /// # Errors
    /// When one refuses, or does not answer three times; all are then asked to stop, each until it answers or 15 s have
    /// passed.
    pub async fn play(
        &mut self,
        environment: &[(String, String)],
        arguments: impl Fn(&Member, u32) -> Vec<String>,
    ) -> Result<(), FleetError> {
        self.load += 1;
        let crew = &*self;
        let orders = (1..).zip(&self.members).map(|(number, member)| {
            let play = Request::Play(Order {
                run: self.run.clone(),
                load: self.load,
                number,
                arguments: arguments(member, number),
                environment: environment.to_vec(),
            });
            async move { crew.insist(member, &play, ORDER_PATIENCE).await }
        });
        // Workers on one machine start their programs one after another.
        let answers = stream::iter(orders).buffered(ORDERED_AT_ONCE);
        let answers: Vec<_> = answers.collect().await;
        for (answer, member) in answers.into_iter().zip(&self.members) {
            let problem = match answer {
                Some(Answer::Done) => continue,
                Some(Answer::Refused(problem)) => problem,
                _ => "it does not answer any more".to_owned(),
            };
            let host = member.host.clone();
            let run = self.run.clone();
            self.ask_all(&Request::Stop { run }, GIVE_UP).await;
            return Err(FleetError::Worker { host, problem });
        }
        Ok(())
    }

    /// Asks all, and those that do not answer again until so much time has passed.
    async fn ask_all(&self, request: &Request, patience: Duration) {
        let asked = self
            .members
            .iter()
            .map(|it| self.insist(it, request, patience));
        join_all(asked).await;
    }

    /// Asks one, and again until it answers or so much time has passed.
    async fn insist(
        &self,
        member: &Member,
        request: &Request,
        patience: Duration,
    ) -> Option<Answer> {
        let until = Instant::now() + patience;
        loop {
            let answer = self.bus.ask(of_worker(&member.id), request).await;
            if answer.is_some() || Instant::now() >= until {
                return answer;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Asks the programs that have not ended to stop. Nobody waits for answers: it is asked again.
    async fn ask_to(&self, stop: Stop, watched: &[Watched]) {
        let run = self.run.clone();
        let request = match stop {
            Stop::No | Stop::AtOnce => return,
            Stop::Over => Request::Over { run },
            Stop::Orderly => Request::Stop { run },
        };
        for (member, one) in self.members.iter().zip(watched) {
            if one.ending.is_none() {
                let subject = of_worker(&member.id);
                self.bus.publish(subject, &request, None).await;
            }
        }
    }

    /// Hears the workers to their end, measures their clocks, and asks all to stop as soon as `stop` says so.
    /// A worker that stays silent when the others have ended is lost. `length` is how long their programs take at
    /// most.
    ///
    /// # Errors
    /// [`FleetError::Away`]: the server is away a minute after that. [`FleetError::Interrupted`]: at once.
    pub async fn watch(
        &mut self,
        length: Duration,
        stop: &dyn Fn() -> Stop,
        event: &mut dyn FnMut(Event),
    ) -> Result<Vec<Ending>, FleetError> {
        let until = Instant::now() + length + AWAY;
        let (clocks, mut measured) = mpsc::channel(CLOCKS_WAITING);
        let mut measuring = JoinSet::new();
        for (place, member) in self.members.iter().enumerate() {
            measuring.spawn(follow_clock(
                self.bus.clone(),
                member.id.clone(),
                place,
                clocks.clone(),
            ));
        }
        let mut watched: Vec<Watched> = self.members.iter().map(|_| Watched::default()).collect();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_up, mut asked, mut ask_again) = (true, Stop::No, Instant::now());
        while watched.iter().any(|one| one.ending.is_none()) {
            tokio::select! {
                Some(message) = self.told.next() => {
                    let told = serde_json::from_slice::<Told>(&message.payload).ok();
                    let told = told.filter(|told| told.load == self.load);
                    let place = told.as_ref().and_then(|told| self.members.iter().position(|one| one.id == told.worker));
                    if let (Some(told), Some(place)) = (told, place) {
                        watched[place].note(place, told.standing, event);
                    }
                }
                Some((place, exchanges)) = measured.recv() => {
                    self.members[place].clock.add(&exchanges);
                }
                _ = ticks.tick() => {
                    if is_up != self.bus.is_up() {
                        is_up = !is_up;
                        event(if is_up { Event::BusBack } else { Event::BusAway });
                    }
                    if is_up {
                        add_silence(&mut watched, event);
                    } else {
                        watched.iter_mut().for_each(Watched::reset_silence);
                        if Instant::now() >= until {
                            return Err(FleetError::Away(self.run.clone()));
                        }
                    }
                    let wanted = stop();
                    if wanted == Stop::AtOnce {
                        return Err(FleetError::Interrupted);
                    }
                    let is_new = std::mem::replace(&mut asked, wanted) != wanted;
                    if is_up && (is_new || ask_again <= Instant::now()) {
                        ask_again = Instant::now() + ASK_EVERY;
                        self.ask_to(wanted, &watched).await;
                    }
                }
            }
        }
        measuring.shutdown().await;
        let mut endings: Vec<Ending> = watched.into_iter().filter_map(|one| one.ending).collect();
        for (place, ending) in endings.iter_mut().enumerate().filter(|(_, it)| it.lost) {
            ending.kept = self.has_brought(place).await;
        }
        Ok(endings)
    }

    /// Whether the folder of the worker with this place is in the store.
    async fn has_brought(&self, place: usize) -> bool {
        let Ok(store) = self.bus.folders(&self.run).await else {
            return false;
        };
        store
            .info(object(self.load, place as u32 + 1))
            .await
            .is_ok()
    }

    /// Fetches the folder of the worker with this place, from 0, into a folder that is not there yet. While the
    /// connection breaks it begins anew, for two minutes.
    ///
    /// # Errors
    /// When it is not in the store, or cannot be written.
    pub async fn fetch(&self, place: usize, into: &Path) -> Result<(), FleetError> {
        let until = Instant::now() + FETCH_PATIENCE;
        loop {
            let fetched = async {
                let store = self.bus.folders(&self.run).await?;
                folder::get(&store, &object(self.load, place as u32 + 1), into).await
            };
            match fetched.await {
                Err(FleetError::Store(_)) if Instant::now() < until => {
                    tokio::time::sleep(RETRY).await;
                }
                settled => return settled,
            }
        }
    }

    /// Removes the run's folders from the store.
    pub async fn forget(&self) {
        self.bus.forget(&self.run).await;
    }

    /// Lets the workers go.
    pub async fn end(&mut self) {
        self.release().await;
        self.bus.flush().await;
    }

    async fn release(&mut self) {
        let run = self.run.clone();
        // Claims that hear nothing end by themselves.
        self.ask_all(&Request::Release { run }, Duration::ZERO)
            .await;
        self.members.clear();
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
        let mut listed = listed.map_err(|error| FleetError::Store(error.to_string()))?;
        let mut folders = Vec::new();
        while let Some(object) = listed.next().await {
            let object = object.map_err(|error| FleetError::Store(error.to_string()))?;
            let folder = into.join(format!("shard-{}", object.name));
            folder::get(&store, &object.name, &folder).await?;
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
    let mut ticks = interval(SIGN_OF_LIFE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let roll = Roll { run: run.clone() };
        bus.publish(ROLL.to_owned(), &roll, None).await;
    }
}

/// How long workers may take to answer the roll.
const ROLL_CALL: Duration = Duration::from_secs(1);
/// A third of how long a claim holds without it.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// Enough for one of them to meet no other traffic.
const FIRST_EXCHANGES: usize = 16;
/// How often programs are asked to stop until they have.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Clock measurements that wait to be taken in, of all workers.
const CLOCKS_WAITING: usize = 64;
/// Workers that are given their orders at one time.
const ORDERED_AT_ONCE: usize = 64;
/// An order is given three times at most: programs need some of the time before the start.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a server that is away after the load is waited for.
const AWAY: Duration = Duration::from_secs(60);
/// How long a folder is asked for again, and how long between two tries.
const FETCH_PATIENCE: Duration = Duration::from_secs(120);
const RETRY: Duration = Duration::from_secs(1);
