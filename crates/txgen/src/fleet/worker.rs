//! `txgen worker`: a machine that waits for its part of a load.

use std::path::PathBuf;

use fleet::{Bus, Program, Worker};
use harness::note;
use ops::command::{CommandError, failed, usage};

use super::{VERSION, arguments};
use crate::cli::WorkerArgs;
use crate::exit;
use crate::shutdown::Shutdown;

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
    let runtime = crate::runtime::start().map_err(failed)?;
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
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
