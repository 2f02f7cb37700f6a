//! Inverts what never falls.

/// Finds the last `t` in `0..=high` for which `holds`, which must hold at 0 and, once it fails,
/// never hold again. Starts looking at `guess` and widens from there.
pub(super) fn last_where(high: u64, guess: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let guess = guess.min(high);
    let (mut low, mut failing);
    let mut reach = 1_u64;
    if holds(guess) {
        low = guess;
        loop {
            let probe = low.saturating_add(reach);
            if probe > high {
                failing = high.saturating_add(1);
                break;
            }
            if !holds(probe) {
                failing = probe;
                break;
            }
            low = probe;
            reach = reach.saturating_mul(4);
        }
    } else {
        failing = guess;
        loop {
            low = failing.saturating_sub(reach);
            if low == 0 || holds(low) {
                break;
            }
            failing = low;
            reach = reach.saturating_mul(4);
        }
    }
    while failing - low > 1 {
        let middle = low + (failing - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            failing = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_the_last_from_any_guess(high in 0_u64..1 << 40, at: u64, guess: u64) {
            let at = at % (high + 1);
            prop_assert_eq!(last_where(high, guess, |t| t <= at), at);
        }
    }
}
