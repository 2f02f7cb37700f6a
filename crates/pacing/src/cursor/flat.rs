//! Along a constant rate: quotient and remainder, as in Bresenham's line.

/// Keeps `area = rate · at + rest` with `rest < rate`.
#[derive(Debug, Clone)]
pub(super) struct FlatTrack {
    rate: u64,
    at: u64,
    rest: u64,
    /// The last stride and its quotient and remainder by the rate: even arrivals repeat it.
    stride: u64,
    stride_at: u64,
    stride_rest: u64,
}

impl FlatTrack {
    pub(super) fn new(rate: u64, at: u64, area: u128) -> Self {
        // Below the rate.
        let rest = (area - u128::from(rate) * u128::from(at)) as u64;
        Self {
            rate,
            at,
            rest,
            stride: 0,
            stride_at: 0,
            stride_rest: 0,
        }
    }

    /// Goes `by` units of area on, which must not lead past the piece's end.
    #[inline]
    pub(super) fn advance(&mut self, by: u64) -> u64 {
        if by != self.stride {
            self.stride = by;
            self.stride_at = by / self.rate;
            self.stride_rest = by % self.rate;
        }
        self.at += self.stride_at;
        self.rest += self.stride_rest;
        if self.rest >= self.rate {
            self.rest -= self.rate;
            self.at += 1;
        }
        self.at
    }
}
