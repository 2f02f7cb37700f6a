//! What an SDK chain says of an account's sequence when it refuses a transaction.

use sender::Expectation;

/// Reads `account sequence mismatch, expected 5, got 7`, the words of `sdk/32` (Cosmos SDK 0.50,
/// x/auth/ante/sigverify.go).
pub(crate) fn expectation(log: &str) -> Option<Expectation> {
    let (_, numbers) = log.split_once("account sequence mismatch")?;
    let number = |word: &str| {
        let (_, rest) = numbers.split_once(word)?;
        let digits = rest.trim_start();
        let end = digits.find(|c: char| !c.is_ascii_digit());
        digits[..end.unwrap_or(digits.len())].parse().ok()
    };
    Some(Expectation {
        expected: number("expected ")?,
        got: number("got ")?,
    })
}

/// What to say where the chain is ahead of a sequence that was read from it a moment ago; where it is
/// behind, the node that answered is.
pub(crate) fn moved_on(expectation: Expectation) -> Option<String> {
    let Expectation { expected, got } = expectation;
    (expected > got).then(|| {
        format!(
            "its sequence was {got} and is {expected}; give every generator accounts of its own (--shard, \
             another --seed or --hd-path)"
        )
    })
}

/// How a table of refusals names a wrong sequence.
pub(crate) const MISMATCH: &str =
    "sdk/32: account sequence mismatch, expected #, got #: incorrect account sequence";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_sdk_say_what_it_expects() {
        let log = "account sequence mismatch, expected 12, got 9: incorrect account sequence";
        let read = expectation(log).unwrap();
        assert_eq!((read.expected, read.got), (12, 9));
        assert_eq!(expectation("incorrect account sequence"), None);
    }

    #[test]
    fn somebody_else_used_an_account_where_the_chain_is_ahead_of_what_was_read() {
        let [ahead, behind] = [(18, 12), (12, 18)].map(|(expected, got)| {
            let log = format!("account sequence mismatch, expected {expected}, got {got}: wrong");
            moved_on(expectation(&log).unwrap())
        });
        assert!(ahead.unwrap().starts_with("its sequence was 12 and is 18;"));
        assert_eq!(behind, None);
    }
}
