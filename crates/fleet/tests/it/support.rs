//! Workers whose program is a shell, and workers that are scripted.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet::message::{Answer, PROTOCOL, Present, ROLL, Request, Told, Want, of_worker};
use fleet::{Bus, Crew, Ending, Event, FleetError, Program, Stop, Worker};
use futures_util::StreamExt as _;
use testkit::Nats;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) async fn bus(nats: &Nats) -> Bus {
    Bus::connect(&nats.url(), "test").await.unwrap()
}

/// `sh -c`, and where folders are put.
pub(crate) fn program(nats: &Nats, host: &str, version: &str) -> (Program, PathBuf) {
    let runs = nats.home().join(host);
    std::fs::create_dir_all(&runs).unwrap();
    let program = Program {
        path: "/usr/bin/env".into(),
        version: version.into(),
        prefix: "FLEET_TEST_",
        note: |_| (),
        // A shell takes no signal that its parent ignores, as what a script starts beside itself ignores Ctrl-C.
        before: ["--default-signal", "sh", "-c"].map(Into::into).into(),
    };
    (program, runs)
}

/// A worker that runs `sh -c SCRIPT ARGUMENTS --out FOLDER`, on threads of its own.
pub(crate) fn worker(nats: &Nats, host: &str, version: &str) -> Running {
    worker_at(nats, &nats.url(), host, version)
}

/// The same, with another way to the server.
pub(crate) fn worker_at(nats: &Nats, url: &str, host: &str, version: &str) -> Running {
    let (program, runs) = program(nats, host, version);
    let threads = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (url, host) = (url.to_owned(), host.to_owned());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = threads.spawn(async move {
        let bus = Bus::connect(&url, &host).await.unwrap();
        let stopped = async move { drop(stopped.await) };
        let worker = Worker::new(bus, host, program, runs);
        worker.serve(stopped).await.unwrap();
    });
    Running {
        threads: Some(threads),
        stop,
        served,
    }
}

/// Dropped, it is as a machine that is switched off.
pub(crate) struct Running {
    threads: Option<Runtime>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stop(mut self) {
        let (stop, _) = oneshot::channel();
        std::mem::replace(&mut self.stop, stop).send(()).unwrap();
        (&mut self.served).await.unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// Of a program that prints a line, waits, and leaves a file with what the environment said.
pub(crate) const SCRIPT: &str =
    r#"echo '{"at":1}'; mkdir "$2"; sleep "$0"; echo "$FLEET_TEST_WORD" > "$2/word"; exit 0"#;

/// Has all run this.
pub(crate) async fn play<'a>(crew: &mut Crew, arguments: impl Fn(u32) -> Vec<&'a str>) {
    let environment = [("FLEET_TEST_WORD".into(), "of all".into())];
    let arguments = |number| arguments(number).into_iter().map(Into::into).collect();
    let played = crew.play(&environment, |_, number| arguments(number));
    played.await.unwrap();
}

pub(crate) async fn watch(crew: &mut Crew, stop: impl Fn() -> Stop) -> (Vec<Ending>, Vec<Event>) {
    let mut all = Vec::new();
    let mut turn = |events| {
        all.extend(events);
        stop()
    };
    let endings = crew.watch(LIMIT, &mut turn).await.unwrap();
    (endings, all)
}

pub(crate) async fn stopped_once_it_prints(crew: &mut Crew) -> Vec<Ending> {
    let mut is_up = false;
    let mut turn = |events: Vec<Event>| {
        is_up |= events.iter().any(|it| matches!(it, Event::Line(..)));
        if is_up { Stop::Orderly } else { Stop::No }
    };
    crew.watch(LIMIT, &mut turn).await.unwrap()
}

pub(crate) async fn call(nats: &Nats, run: &str, wanted: usize) -> Result<Crew, FleetError> {
    call_for(nats, run, wanted, LIMIT).await
}

pub(crate) async fn call_for(
    nats: &Nats,
    run: &str,
    wanted: usize,
    patience: Duration,
) -> Result<Crew, FleetError> {
    let mut crew = Crew::new(bus(nats).await, run.into()).await?;
    crew.call(wanted, "1.0", patience).await?;
    Ok(crew)
}

/// What one worker says to requests; it answers every roll but those of these numbers, from 0.
pub(crate) async fn answer_as(
    nats: &Nats,
    host: &str,
    unanswered: &'static [usize],
    mut tell: impl FnMut(&Request) -> Option<Told> + Send + 'static,
) -> JoinHandle<()> {
    let client = async_nats::connect(nats.url()).await.unwrap();
    let mut rolls = client.subscribe(ROLL).await.unwrap();
    let mut requests = client.subscribe(of_worker(host)).await.unwrap();
    client.flush().await.unwrap();
    let host = host.to_owned();
    tokio::spawn(async move {
        let (mut run, mut roll) = (None, 0);
        loop {
            let (reply, payload) = tokio::select! {
                Some(message) = rolls.next() => {
                    // Others are signs of life.
                    let Some(reply) = message.reply else { continue };
                    roll += 1;
                    if unanswered.contains(&(roll - 1)) {
                        continue;
                    }
                    let present = Present {
                        id: host.clone(),
                        host: host.clone(),
                        version: "1.0".into(),
                        protocol: PROTOCOL,
                        run: run.clone(),
                    };
                    (reply, serde_json::to_vec(&present).unwrap())
                }
                Some(message) = requests.next() => {
                    let request: Request = serde_json::from_slice(&message.payload).unwrap();
                    run = Some(request.run.clone());
                    let Some(told) = tell(&request) else { continue };
                    let told = Told { worker: host.clone(), ..told };
                    (message.reply.unwrap(), serde_json::to_vec(&told).unwrap())
                }
            };
            client.publish(reply, payload.into()).await.unwrap();
        }
    })
}

/// All that is wanted is done, by a worker whose clock shows this.
pub(crate) fn done(request: &Request, at_ns: i64) -> Told {
    let load = match &request.want {
        Want::Play(order) => order.load,
        _ => 0,
    };
    Told {
        answer: Some(Answer {
            number: request.number,
            at_ns,
        }),
        run: Some(request.run.clone()),
        load,
        ..Told::default()
    }
}

/// A way to the server on which a message can be lost, together with the connection.
pub(crate) struct Relay {
    address: SocketAddr,
    loses: Arc<Mutex<Option<&'static str>>>,
    _task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn to(nats: &Nats) -> Self {
        let server = nats.url().replace("nats://", "");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let loses = Arc::<Mutex<Option<&'static str>>>::default();
        let lost = Arc::clone(&loses);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, lost) = (server.clone(), Arc::clone(&lost));
                tokio::spawn(async move {
                    let server = TcpStream::connect(server).await.unwrap();
                    let (client, server) = (client.into_split(), server.into_split());
                    tokio::select! {
                        () = pass_on(client.0, server.1, &lost) => {}
                        () = pass_on(server.0, client.1, &lost) => {}
                    }
                });
            }
        });
        Self {
            address,
            loses,
            _task: task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// The next message with this in it is lost, whichever way it goes.
    pub(crate) fn lose(&self, text: &'static str) {
        *self.loses.lock().unwrap() = Some(text);
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.loses.lock().unwrap().is_none()
    }
}

/// Until the connection ends, or what is to be lost has come.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    loses: &Mutex<Option<&'static str>>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let bytes = &buffer[..length];
        let text = String::from_utf8_lossy(bytes);
        if loses
            .lock()
            .unwrap()
            .take_if(|it| text.contains(*it))
            .is_some()
            || to.write_all(bytes).await.is_err()
        {
            return;
        }
    }
}

/// More than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
