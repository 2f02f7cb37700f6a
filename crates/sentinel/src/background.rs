//! Threads that write what no thread that serves clients may wait for: to a disk, to a collector, to whoever reads stderr.
//!
//! A bounded queue feeds each. A reader that does not keep up costs entries, which are counted, and never a request.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::oneshot;

/// What feeds a thread that writes.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    entries: SyncSender<Entry<T>>,
    /// What counts the entries that it had no place for.
    lost: Counter,
}

/// What stands in a queue.
#[derive(Debug)]
pub(crate) enum Entry<T> {
    Of(T),
    /// All entries before are to be written, and this told.
    Flush(oneshot::Sender<()>),
}

impl<T: Send + 'static> Queue<T> {
    /// Starts a thread that has a queue of 4,096. It ends with the last handle: a reader that takes nothing must not keep
    /// the program from ending.
    pub(crate) fn of(
        name: &str,
        lost: Counter,
        write: impl FnOnce(Receiver<Entry<T>>) + Send + 'static,
    ) -> io::Result<Self> {
        let (entries, queue) = sync_channel(MOST_ENTRIES);
        let named = thread::Builder::new().name(name.to_owned());
        named.spawn(move || write(queue))?;
        Ok(Self { entries, lost })
    }

    /// Its thread writes lines to this file, each as `write` does.
    pub(crate) fn of_lines<W: Write + Send + 'static>(
        name: &str,
        file: W,
        lost: Counter,
        write: fn(&mut BufWriter<W>, &T) -> io::Result<()>,
    ) -> io::Result<Self> {
        let unwritten = lost.clone();
        Self::of(name, lost, move |queue| {
            write_all(&queue, BufWriter::new(file), &unwritten, write);
        })
    }

    /// Hands this to the thread, if the queue has a place for it.
    pub(crate) fn put(&self, entry: T) -> bool {
        let is_taken = self.entries.try_send(Entry::Of(entry)).is_ok();
        if !is_taken {
            self.lost.inc();
        }
        is_taken
    }

    /// Waits until what was put is written.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let mut entry = Entry::Flush(done);
        while let Err(TrySendError::Full(full)) = self.entries.try_send(entry) {
            tokio::time::sleep(FLUSH_PAUSE).await;
            entry = full;
        }
        // Without the thread there is nothing to wait for.
        let _ = written.await;
    }
}

/// Writes until the last handle is gone. What cannot be written is lost, and counted.
fn write_all<T, W: Write>(
    queue: &Receiver<Entry<T>>,
    mut file: BufWriter<W>,
    lost: &Counter,
    write: fn(&mut BufWriter<W>, &T) -> io::Result<()>,
) {
    let count = |written: io::Result<()>| {
        if written.is_err() {
            lost.inc();
        }
    };
    while let Ok(first) = queue.recv() {
        let mut waiting = Vec::new();
        for entry in std::iter::once(first).chain(queue.try_iter().take(MOST_ENTRIES)) {
            match entry {
                Entry::Of(line) => count(write(&mut file, &line)),
                Entry::Flush(done) => waiting.push(done),
            }
        }
        count(file.flush());
        for done in waiting {
            let _ = done.send(());
        }
    }
}

/// Requests that wait for a disk or a collector: 2 MiB of usual ones, a second of 4,000 requests.
pub(crate) const MOST_ENTRIES: usize = 4_096;
/// How often the end of the program looks whether a queue has room.
const FLUSH_PAUSE: Duration = Duration::from_millis(10);
