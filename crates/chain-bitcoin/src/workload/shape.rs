//! What a transaction looks like, and what it costs.

use std::fmt;
use std::str::FromStr;

/// Inputs and outputs of a transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Shape {
    /// Two P2PKH inputs and two outputs of the same value: the gigablock testnet's.
    #[default]
    TwoInTwoOut,
    /// One input and one output.
    OneInOneOut,
    /// One input and so many outputs, all but the first of the least value.
    Fan(u16),
}

impl Shape {
    /// Coins that it spends.
    pub(crate) const fn inputs(self) -> usize {
        match self {
            Self::TwoInTwoOut => 2,
            Self::OneInOneOut | Self::Fan(_) => 1,
        }
    }

    /// Coins that it makes.
    pub(crate) const fn outputs(self) -> usize {
        match self {
            Self::TwoInTwoOut => 2,
            Self::OneInOneOut => 1,
            Self::Fan(outputs) => outputs as usize,
        }
    }

    /// Its size in bytes at most: a signature has 70 to 72 bytes, 71 or 72 as a rule.
    #[must_use]
    pub const fn size(self) -> usize {
        size(self.inputs(), self.outputs())
    }

    /// Satoshi of outputs that no later transaction of the chain spends.
    pub(crate) const fn left_behind(self) -> u64 {
        match self {
            Self::Fan(outputs) => (outputs as u64 - 1) * LEAST_OUTPUT,
            _ => 0,
        }
    }

    /// The values of its outputs, when its coins hold so many satoshi and `fee` is paid. The first ones
    /// are what the next transaction of the chain spends.
    pub(crate) fn values(self, spent: u64, fee: u64) -> Vec<u64> {
        let carried = spent.saturating_sub(fee + self.left_behind());
        let mut values = vec![LEAST_OUTPUT; self.outputs()];
        let share = carried / self.inputs() as u64;
        values[..self.inputs()].fill(share);
        values[0] += carried - share * self.inputs() as u64;
        values
    }
}

/// Bytes of a transaction of P2PKH inputs and outputs at most.
pub const fn size(inputs: usize, outputs: usize) -> usize {
    let counts = count_bytes(inputs) + count_bytes(outputs);
    8 + counts + INPUT_BYTES * inputs + OUTPUT_BYTES * outputs
}

/// Bytes of Bitcoin's variable-length integer.
const fn count_bytes(count: usize) -> usize {
    match count {
        0..=252 => 1,
        253..=0xffff => 3,
        _ => 5,
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "2in2out" => Ok(Self::TwoInTwoOut),
            "1in1out" => Ok(Self::OneInOneOut),
            _ => text
                .strip_prefix("fan:")
                .and_then(|outputs| outputs.parse().ok())
                .filter(|outputs| (2..=MOST_OUTPUTS).contains(outputs))
                .map(Self::Fan)
                .ok_or_else(|| {
                    format!("unknown shape {text:?}; use 2in2out, 1in1out or fan:2 to fan:{MOST_OUTPUTS}")
                }),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoInTwoOut => f.write_str("2in2out"),
            Self::OneInOneOut => f.write_str("1in1out"),
            Self::Fan(outputs) => write!(f, "fan:{outputs}"),
        }
    }
}

/// Outpoint 36, length 1, signature with type 1 + 72, key 1 + 33, sequence 4.
const INPUT_BYTES: usize = 148;
/// Value 8, length 1, script 25.
const OUTPUT_BYTES: usize = 34;
/// Above the dust limit of P2PKH at the least fee: 546 satoshi (`mempool/policy.go` of btcd 0.26).
pub const LEAST_OUTPUT: u64 = 1_000;
/// 68 kB; a standard transaction has 100 kB at most.
const MOST_OUTPUTS: u16 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_satoshi_is_lost_between_coins_and_outputs() {
        for shape in ["2in2out", "1in1out", "fan:5"] {
            let shape: Shape = shape.parse().unwrap();
            for spent in [9_999, 10_000, 123_457] {
                let values = shape.values(spent, 748);
                assert_eq!(values.len(), shape.outputs());
                assert_eq!(values.iter().sum::<u64>() + 748, spent, "{shape}");
            }
            assert_eq!(shape.to_string().parse(), Ok(shape));
        }
    }

    #[test]
    fn shapes_that_no_node_takes_are_refused() {
        for text in ["3in2out", "fan:1", "fan:2001", "fan:-1", "fan:"] {
            let error = text.parse::<Shape>().unwrap_err();
            assert!(error.contains("use 2in2out"), "{error}");
        }
    }
}
