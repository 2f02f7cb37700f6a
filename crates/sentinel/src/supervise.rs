//! The tasks of the proxy: none of them ends unnoticed.
//!
//! One that can begin anew is [kept running](keep_running). The end of any other one, by a panic or by itself, is
//! the end of the program ([`Tasks`]): the service manager starts it again, whole.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;
use tracing::error;

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

/// Tasks by their names, none of which may end before it is stopped.
pub(crate) type Tasks = JoinMap<&'static str, ()>;

/// Why a task has ended.
pub(crate) fn reason(error: Option<JoinError>) -> String {
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
            let (metrics, shutdown) = (Arc::new(Metrics::default()), CancellationToken::new());
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
        for (panics, expected) in [(false, "it returned"), (true, "panicked")] {
            let mut tasks = Tasks::new();
            tasks.spawn("goes on", pending());
            tasks.spawn("ends", async move {
                assert!(!panics, "a task that panics");
            });
            let (name, ended) = tasks.join_next().await.unwrap();
            let reason = reason(ended.err());
            assert!(
                name == "ends" && reason.contains(expected),
                "{name}: {reason}"
            );
        }
    }
}
