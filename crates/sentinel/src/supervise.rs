//! The tasks of the proxy: none of them ends unnoticed.
//!
//! One that can begin anew is [kept running](keep_running). The end of any other one, by a panic or by itself, is
//! the end of the program ([`Tasks`]): whoever started it starts it again, whole.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error};

use crate::metrics::{Metrics, RestartedTask};

/// Runs a task until shutdown. One that ends before is reported, counted and begun anew after a pause, which
/// doubles while it goes on so.
///
/// # Cancel safety
/// Dropping the future ends the task.
pub(crate) async fn keep_running<F>(
    name: RestartedTask,
    metrics: Arc<Metrics>,
    shutdown: CancellationToken,
    run: impl Fn() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = Instant::now();
        let mut task = JoinSet::new();
        task.spawn(run());
        let ended = task.join_next().await;
        if shutdown.is_cancelled() {
            return;
        }
        let reason = reason(ended.and_then(Result::err));
        error!(task = name.name(), reason, "a task ended; it begins anew");
        metrics.task_restarted(name);
        if begun.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Tasks none of which may end before it is told to.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tasks: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// A task that has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) name: &'static str,
    pub(crate) reason: String,
}

impl Tasks {
    pub(crate) fn spawn(
        &mut self,
        name: &'static str,
        on: &Handle,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let id = self.tasks.spawn_on(task, on).id();
        self.names.insert(id, name);
    }

    /// The next task that ends; none when all have.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next_end(&mut self) -> Option<Ended> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        let name = self.names.remove(&id).unwrap_or_default();
        let reason = reason(ended.err());
        debug!(task = name, reason, "a task ended");
        Some(Ended { name, reason })
    }

    /// Whether a task of one of these names still runs.
    pub(crate) fn has_any(&self, names: &[&'static str]) -> bool {
        self.names.values().any(|name| names.contains(name))
    }
}

fn reason(error: Option<JoinError>) -> String {
    error.map_or_else(|| "it returned".to_owned(), |error| error.to_string())
}

/// The pause before a task begins anew, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::metrics::Gauges;

    /// At 2b52556 a panic of the operator's listener made the service manager kill a healthy program.
    #[tokio::test(start_paused = true)]
    async fn acknowledged_68_a_watch_that_ends_begins_anew_without_spinning() {
        for name in RestartedTask::ALL {
            let (metrics, shutdown) = (Arc::new(Metrics::new()), CancellationToken::new());
            let begun = Arc::new(AtomicUsize::new(0));
            let run = || {
                let number = begun.fetch_add(1, Ordering::Relaxed);
                async move {
                    assert!(number.is_multiple_of(2), "a task that panics");
                    if number > 4 {
                        pending::<()>().await;
                    }
                }
            };
            let keeping = keep_running(name, Arc::clone(&metrics), shutdown.clone(), run);
            let watch = async {
                // After 1, 2, 4 and 8 s.
                for (after, expected) in [(0, 1), (1, 2), (2, 3), (4, 4), (8, 5)] {
                    sleep(Duration::from_secs(after) + Duration::from_millis(1)).await;
                    assert_eq!(begun.load(Ordering::Relaxed), expected);
                }
                shutdown.cancel();
            };
            tokio::join!(keeping, watch);
            let line = format!(
                "sentinel_task_restarts_total{{task=\"{}\"}} 5\n",
                name.name()
            );
            let text = metrics.render(&Gauges::default());
            assert!(text.contains(&line), "{text}");
        }
    }

    #[tokio::test]
    async fn lifecycle_94_the_end_of_a_task_has_a_name_and_a_reason() {
        for (panics, reason) in [(false, "it returned"), (true, "panicked")] {
            let mut tasks = Tasks::default();
            tasks.spawn("goes on", &Handle::current(), pending());
            tasks.spawn("ends", &Handle::current(), async move {
                assert!(!panics, "a task that panics");
            });
            let ended = tasks.next_end().await.unwrap();
            assert_eq!(ended.name, "ends");
            assert!(ended.reason.contains(reason), "{}", ended.reason);
            assert!(tasks.has_any(&["goes on"]) && !tasks.has_any(&["ends"]));
        }
    }
}
