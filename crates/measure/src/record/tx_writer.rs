//! Writing a row of `txs.csv` from the pending record.

use pacing::Nanos;

use super::pending::{NEVER, Record, RecordState};
use crate::format::event::TxHash;
use crate::format::rows::IdText;

/// Formats rows, with times relative to the run's origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TxWriter {
    origin_unix_ns: u64,
    digits: &'static [u8; 16],
}

impl TxWriter {
    pub(crate) const fn new(origin_unix_ns: u64, ids: IdText) -> Self {
        Self {
            origin_unix_ns,
            digits: ids.digits(),
        }
    }

    pub(crate) fn write(self, record: &Record, out: &mut Vec<u8>) {
        let (accepted, error) = match record.state {
            RecordState::Accepted => (record.answered, NEVER),
            RecordState::Rejected | RecordState::RpcError | RecordState::Failed(_) => {
                (NEVER, record.answered)
            }
            RecordState::Unanswered | RecordState::Free => (NEVER, NEVER),
        };
        push_hex(out, &record.hash, self.digits);
        push_integer(out, u64::from(record.size));
        self.push_wall(out, record.sent);
        self.push_wall(out, accepted);
        self.push_wall(out, record.committed);
        self.push_wall(out, error);
        push_stamp(out, record.due);
        push_stamp(out, record.sent);
        push_stamp(out, accepted);
        push_stamp(out, record.committed);
        out.push(b',');
        if record.is_committed() {
            out.extend_from_slice(itoa::Buffer::new().format(record.height).as_bytes());
        }
        out.push(b',');
        let code = record.deciding_code();
        if let Some(code) = code {
            push_number(out, code.number);
        }
        push_integer(out, u64::from(record.endpoint));
        push_integer(out, u64::from(record.step));
        out.push(b',');
        // A code of 0 means the same in all of them.
        if let Some(code) = code.filter(|code| code.number != 0) {
            out.extend_from_slice(code.space.name().as_bytes());
        }
        out.push(b'\n');
    }

    /// Milliseconds since the Unix epoch, with three decimals.
    fn push_wall(self, out: &mut Vec<u8>, stamp: Nanos) {
        out.push(b',');
        if stamp == NEVER {
            return;
        }
        let micros = self.origin_unix_ns.saturating_add(stamp.as_nanos()) / 1_000;
        out.extend_from_slice(itoa::Buffer::new().format(micros / 1_000).as_bytes());
        let rest = (micros % 1_000) as u16;
        let digit = |value: u16| b'0' + (value % 10) as u8;
        out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }
}

fn push_hex(out: &mut Vec<u8>, hash: &TxHash, digits: &[u8; 16]) {
    let mut text = [0_u8; 64];
    // Without a table it is done for many bytes at once.
    let letters = digits[10] - b'9' - 1;
    for (pair, &byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(hash) {
        let digit = |value: u8| b'0' + value + if value > 9 { letters } else { 0 };
        *pair = [digit(byte >> 4), digit(byte & 15)];
    }
    out.extend_from_slice(&text);
}

fn push_integer(out: &mut Vec<u8>, value: u64) {
    out.push(b',');
    push_number(out, value);
}

/// Most numbers of a row but its stamps have one digit.
fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer + TryInto<u8> + Copy) {
    match number.try_into() {
        Ok(digit @ 0..10) => out.push(b'0' + digit),
        _ => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
    }
}

fn push_stamp(out: &mut Vec<u8>, stamp: Nanos) {
    out.push(b',');
    if stamp != NEVER {
        out.extend_from_slice(itoa::Buffer::new().format(stamp.as_nanos()).as_bytes());
    }
}
