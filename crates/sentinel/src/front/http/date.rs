//! The date of answers, written once a second for each thread.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::respond::HttpDate;

thread_local! {
    static DATE: RefCell<HttpDate> = RefCell::new(HttpDate::new(0));
}

/// Seconds since the Unix epoch.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Calls `write` with the date of now.
pub(super) fn with_date<T>(write: impl FnOnce(&HttpDate) -> T) -> T {
    DATE.with_borrow_mut(|date| {
        date.set(unix_seconds());
        write(date)
    })
}
