//! A folder as one object of the bus's store, and back.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};
use std::time::Duration;

use async_nats::jetstream::object_store::ObjectStore;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::bus::{Bus, FleetError};

/// Puts a folder into the store of a run under this name, and nothing on the disk, which may be full. The folder stays.
pub(crate) async fn put(bus: &Bus, run: &str, name: &str, folder: &Path) -> Result<(), FleetError> {
    if !folder.is_dir() {
        return Err(FleetError::Workers("the program left no folder".to_owned()));
    }
    persist(PUT_PATIENCE, move || async move {
        put_once(&bus.folders(run).await?, name, folder).await
    })
    .await
}

async fn put_once(store: &ObjectStore, name: &str, folder: &Path) -> Result<(), FleetError> {
    let unpacked = |source| FleetError::Folder {
        what: format!("cannot pack {}", folder.display()),
        source,
    };
    let (reader, writer) = io::pipe().map_err(unpacked)?;
    let target = folder.to_owned();
    let packing = tokio::task::spawn_blocking(move || pack(&target, writer));
    let mut reader = tokio::fs::File::from_std(OwnedFd::from(reader).into());
    let put = store.put(name, &mut reader).await;
    // Without a reader the packing ends.
    drop(reader);
    put.map_err(FleetError::store)?;
    let packed = packing.await.map_err(io::Error::other).flatten();
    if packed.is_err() {
        // What is there is a part of it; nobody is told of it.
        let _ = store.delete(name).await;
    }
    packed.map_err(unpacked)
}

/// Brings the folder of this name from the store of a run; `into` must not be there.
pub(crate) async fn get(bus: &Bus, run: &str, name: &str, into: &Path) -> Result<(), FleetError> {
    persist(GET_PATIENCE, move || async move {
        let object = bus.folders(run).await?.get(name).await;
        unpack_from(object.map_err(FleetError::store)?, into).await
    })
    .await
}

/// Tries again while the store refuses, for so long.
async fn persist<F: Future<Output = Result<(), FleetError>>>(
    patience: Duration,
    attempt: impl Fn() -> F,
) -> Result<(), FleetError> {
    let until = Instant::now() + patience;
    loop {
        match attempt().await {
            Err(FleetError::Store(_)) if Instant::now() < until => sleep(RETRY).await,
            settled => return settled,
        }
    }
}

async fn unpack_from(mut object: impl AsyncRead + Unpin, into: &Path) -> Result<(), FleetError> {
    let unwritten = |source| FleetError::Folder {
        what: format!("cannot write {}", into.display()),
        source,
    };
    let packed = tempfile::tempfile_in(into.parent().unwrap_or(into)).map_err(unwritten)?;
    let mut writer = tokio::fs::File::from_std(packed);
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        // What breaks the connection is not what cannot be written.
        let read = timeout(READ_PATIENCE, object.read(&mut buffer)).await;
        let read = read.map_err(io::Error::from).flatten();
        match read.map_err(FleetError::store)? {
            0 => break,
            length => writer
                .write_all(&buffer[..length])
                .await
                .map_err(unwritten)?,
        }
    }
    writer.flush().await.map_err(unwritten)?;
    let packed = writer.into_std().await;
    let target = into.to_owned();
    let unpacked = tokio::task::spawn_blocking(move || unpack(packed, &target)).await;
    unpacked
        .map_err(io::Error::other)
        .flatten()
        .map_err(unwritten)
}

fn pack(folder: &Path, into: impl io::Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(into);
    archive.append_dir_all("", folder)?;
    archive.finish()
}

/// Only files and folders, and only inside.
fn unpack(mut packed: File, into: &Path) -> io::Result<()> {
    io::Seek::rewind(&mut packed)?;
    std::fs::create_dir(into)?;
    for entry in tar::Archive::new(packed).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let inside = path
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let kind = entry.header().entry_type();
        if !inside || !(kind.is_file() || kind.is_dir()) {
            return Err(io::Error::other(format!(
                "{} does not belong into a run folder",
                path.display()
            )));
        }
        entry.unpack_in(into)?;
    }
    Ok(())
}

/// How long a folder waits for a bus that is away.
const PUT_PATIENCE: Duration = Duration::from_secs(3_600);
/// How long a folder is asked for again.
const GET_PATIENCE: Duration = Duration::from_secs(120);
/// How long between two tries.
const RETRY: Duration = Duration::from_secs(1);
/// How long the next bytes of a folder are waited for.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// The size of the store's pieces.
const COPY_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_the_same_after_the_way() {
        let place = tempfile::tempdir().unwrap();
        let run = place.path().join("run");
        std::fs::create_dir_all(run.join("spool")).unwrap();
        std::fs::write(run.join("txs.csv"), "one\n").unwrap();
        std::fs::write(run.join("spool/answers"), [0, 255]).unwrap();
        let there = place.path().join("there");
        let packed = || {
            let mut packed = tempfile::tempfile().unwrap();
            pack(&run, &mut packed).unwrap();
            packed
        };
        unpack(packed(), &there).unwrap();
        assert_eq!(std::fs::read(there.join("txs.csv")).unwrap(), b"one\n");
        assert_eq!(
            std::fs::read(there.join("spool/answers")).unwrap(),
            [0, 255]
        );
        assert!(unpack(packed(), &there).is_err(), "it is there");
    }

    #[test]
    fn links_are_not_unpacked() {
        let place = tempfile::tempdir().unwrap();
        let mut archive = tar::Builder::new(tempfile::tempfile().unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive
            .append_link(&mut header, "txs.csv", "/etc/passwd")
            .unwrap();
        let packed = archive.into_inner().unwrap();
        let error = unpack(packed, &place.path().join("there")).unwrap_err();
        assert!(error.to_string().contains("txs.csv"), "{error}");
    }

    /// Nothing comes any more, and the connection does not break.
    #[tokio::test(start_paused = true)]
    async fn the_next_bytes_of_a_folder_are_waited_for_so_long_and_no_longer() {
        let place = tempfile::tempdir().unwrap();
        let into = place.path().join("there");
        let (mut from, object) = tokio::io::duplex(16);
        let sending = async {
            for _ in 0..3 {
                from.write_all(&[0; 16]).await.unwrap();
                sleep(READ_PATIENCE - Duration::from_secs(1)).await;
            }
            std::future::pending::<()>().await;
        };
        let began = Instant::now();
        let got = tokio::select! {
            got = unpack_from(object, &into) => got,
            () = sending => unreachable!("it sends for ever"),
        };
        assert!(matches!(got, Err(FleetError::Store(_))), "{got:?}");
        // Each piece that came began the wait anew.
        let last = 2 * (READ_PATIENCE - Duration::from_secs(1));
        assert_eq!(began.elapsed(), last + READ_PATIENCE);
        assert!(!into.exists());
    }
}
