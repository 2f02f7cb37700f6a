//! `txgen worker`: a machine that waits for its part of a load. `txgen fleet`: a NATS server and workers on this
//! machine, and folders that a coordinator left behind.

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use fleet::{Bus, Crew, Program, Worker};
use harness::note;
use ops::command::{CommandError, failed, usage};
use servers::{Process, Wait, find};

use super::{VERSION, arguments};
use crate::cli::{FleetArgs, WorkerArgs};
use crate::exit;
use crate::output::print;
use crate::shutdown::Shutdown;

/// `txgen fleet`
pub(crate) fn execute(args: &FleetArgs) -> Result<u8, CommandError> {
    match (&args.fetch, args.local) {
        (Some(run), _) => fetch(args, run),
        (None, local) => start(args, local.map_or(0, std::num::NonZeroU32::get)),
    }
}

/// Starts all, and waits for Ctrl-C.
fn start(args: &FleetArgs, workers: u32) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let home = tempfile::Builder::new()
        .prefix("txgen-fleet-")
        .tempdir()
        .map_err(failed)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let own = std::env::current_exe().map_err(failed)?;
    let mut bus = start_server(args, address, home.path(), &shutdown)?;
    let url = format!("nats://{address}");
    let mut crew = Vec::new();
    for number in 1..=workers {
        let arguments = words(&format!("worker --nats {url} --name local-{number}"));
        let log = home.path().join(format!("worker-{number}.log"));
        let worker = Process::start("txgen worker", &own, &arguments, log, Some(&own));
        crew.push(worker.map_err(failed)?);
    }
    print(&format!(
        "NATS server  {url}\nworkers      {workers}, folders in runs/worker\n"
    ));
    let _ = std::io::stdout().flush();
    while !shutdown.is_requested() {
        std::thread::sleep(LOOK_INTERVAL);
        if let Some(trouble) = bus.trouble() {
            return Err(failed(anyhow!(trouble)));
        }
        crew.retain_mut(|worker| match worker.trouble() {
            Some(trouble) => {
                note(&format!("{trouble}; the others go on"));
                false
            }
            None => true,
        });
    }
    note("stopping");
    for worker in &mut crew {
        worker.stop(STOPPING);
    }
    bus.stop(STOPPING);
    Ok(exit::INTERRUPTED)
}

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

/// Starts the NATS server, with its store in `home`, and waits until it takes connections.
fn start_server(
    args: &FleetArgs,
    address: SocketAddr,
    home: &Path,
    shutdown: &Shutdown,
) -> Result<Process, CommandError> {
    let server = find(args.nats_server.as_deref(), "nats-server").ok_or_else(|| {
        usage(anyhow!(
            "no nats-server in PATH; `go install github.com/nats-io/nats-server/v2@latest` builds one, \
             --nats-server names it"
        ))
    })?;
    let (ip, port) = (address.ip(), address.port());
    let mut arguments = words(&format!(
        "--addr {ip} --port {port} --jetstream --store_dir"
    ));
    arguments.push(home.join("store").into());
    let own = std::env::current_exe().map_err(failed)?;
    let log = home.join("nats.log");
    let mut server =
        Process::start("nats-server", &server, &arguments, log, Some(&own)).map_err(failed)?;
    let mut wait = Wait {
        is_ready: &mut |address| TcpStream::connect(address).is_ok(),
        is_cancelled: &|| shutdown.is_requested(),
        timeout: READY,
    };
    server.wait_ready(address, &mut wait).map_err(failed)?;
    Ok(server)
}

/// Brings folders from the server's store.
fn fetch(args: &FleetArgs, run: &str) -> Result<u8, CommandError> {
    let (Some(url), Some(out)) = (&args.nats, &args.out) else {
        return Err(usage(anyhow!("--fetch needs --nats and --out")));
    };
    std::fs::create_dir_all(out)
        .with_context(|| format!("cannot make {}", out.display()))
        .map_err(usage)?;
    let runtime = crate::runtime().map_err(failed)?;
    let folders = runtime.block_on(async {
        let bus = Bus::connect(url, "txgen fleet").await?;
        Crew::fetch_later(&bus, run, out).await
    });
    let folders = folders.map_err(usage)?;
    let names = folders.iter().map(|it| it.display().to_string());
    Ok(print(&format!(
        "{}\n",
        names.collect::<Vec<_>>().join("\n")
    )))
}

const READY: Duration = Duration::from_secs(10);
const STOPPING: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// `txgen worker`
pub(crate) fn work(args: &WorkerArgs) -> Result<u8, CommandError> {
    let shutdown = Shutdown::on_signals().map_err(failed)?;
    let path = std::env::current_exe().map_err(failed)?;
    std::fs::create_dir_all(&args.runs).map_err(failed)?;
    let runs: PathBuf = args.runs.canonicalize().map_err(failed)?;
    let program = Program {
        before: vec![
            "guard".to_owned(),
            "--parent".to_owned(),
            std::process::id().to_string(),
            "--".to_owned(),
            path.display().to_string(),
        ],
        path,
        version: VERSION.to_owned(),
        prefix: arguments::PREFIX,
        note,
    };
    let host = args.name.clone().unwrap_or_else(host_name);
    let runtime = crate::runtime().map_err(failed)?;
    let served = runtime.block_on(async {
        let bus = Bus::connect(&args.nats, &format!("txgen worker {host}")).await?;
        note(&format!(
            "worker {host}: waiting for work, folders in {}",
            runs.display()
        ));
        let worker = Worker::new(bus, host, program, runs);
        worker.serve(shutdown.requested()).await
    });
    match served {
        Ok(()) => Ok(exit::INTERRUPTED),
        Err(error) => Err(usage(error)),
    }
}

fn host_name() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}
