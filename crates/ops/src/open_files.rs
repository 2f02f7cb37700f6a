//! The limit of open files (`RLIMIT_NOFILE`), raised as far as the system allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit stayed below what the program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooFew {
    /// Files the program may need at once.
    pub needed: u64,
    /// The soft limit now in force.
    pub limit: u64,
}

/// Raises the soft limit to `needed` files, and [`RESERVE`] for the program itself.
///
/// # Errors
/// The hard limit is lower, or the system refuses; the soft limit is then as high as it can be.
pub fn allow(needed: u64) -> Result<(), TooFew> {
    let needed = needed.saturating_add(RESERVE);
    let limits = getrlimit(Resource::Nofile);
    let Some(current) = limits.current.filter(|current| *current < needed) else {
        return Ok(());
    };
    let reachable = limits.maximum.map_or(needed, |most| most.min(needed));
    let raised = Rlimit {
        current: Some(reachable),
        maximum: limits.maximum,
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => reachable,
        Err(_) => current,
    };
    if limit < needed {
        return Err(TooFew { needed, limit });
    }
    Ok(())
}

/// Log, record and configuration files, listeners, timers: more than any program of ours opens.
pub const RESERVE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_already_is_enough() {
        assert_eq!(allow(0), Ok(()));
    }

    #[test]
    fn a_limit_that_cannot_be_reached_is_named() {
        // Without a hard limit there is nothing to name.
        if getrlimit(Resource::Nofile).maximum.is_none() {
            return;
        }
        let refused = allow(u64::MAX).unwrap_err();
        assert_eq!(refused.needed, u64::MAX);
        assert!(refused.limit > 0);
    }
}
