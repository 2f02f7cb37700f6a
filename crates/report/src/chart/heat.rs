//! A heat map: how many values fell where.

/// Counts over a grid of equal columns and rows of equal factors.
#[derive(Debug, Clone)]
pub struct HeatMap {
    from_x: f64,
    column: f64,
    low: f64,
    factor: f64,
    rows: usize,
    /// Column after column, from the low row up.
    counts: Vec<u64>,
}

impl HeatMap {
    /// An empty map whose first column begins at `from_x`, each `column` wide, with `rows` rows from
    /// `low` to `high`, both above 0.
    pub fn new(from_x: f64, column: f64, (low, high): (f64, f64), rows: usize) -> Self {
        let rows = rows.max(1);
        let low = low.max(f64::MIN_POSITIVE);
        let factor = (high / low).max(1.01).powf(1.0 / rows as f64);
        Self {
            from_x,
            column,
            low,
            factor,
            rows,
            counts: Vec::new(),
        }
    }

    /// Counts `count` values of `y` in the column of number `column`. What is below or above the
    /// rows counts in the first or the last.
    pub fn add(&mut self, column: usize, y: f64, count: u64) {
        let row = (y.max(self.low) / self.low).ln() / self.factor.ln();
        let row = (row.floor() as usize).min(self.rows - 1);
        let needed = (column + 1) * self.rows;
        if self.counts.len() < needed {
            self.counts.resize(needed, 0);
        }
        self.counts[column * self.rows + row] += count;
    }

    /// Whether nothing was counted.
    pub const fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The extent of its columns that hold something.
    pub(super) fn x_range(&self) -> (f64, f64) {
        let columns = self.counts.len() / self.rows;
        (self.from_x, self.from_x + self.column * columns as f64)
    }

    /// The extent of its rows that hold something, from below without the [`LOWEST_SHARE`] of all values:
    /// a few that were much faster than all others would take decades of the axis.
    pub(super) fn y_range(&self) -> Option<(f64, f64)> {
        let count = |row: usize| -> u64 { self.counts.iter().skip(row).step_by(self.rows).sum() };
        let rows: Vec<u64> = (0..self.rows).map(count).collect();
        let least = (rows.iter().sum::<u64>() as f64 * LOWEST_SHARE) as u64;
        let mut below = 0;
        let first = rows.iter().position(|count| {
            below += count;
            below > least
        })?;
        let last = rows.iter().rposition(|count| *count > 0)?;
        Some((self.edge(first), self.edge(last + 1)))
    }

    /// The rectangles of each level of intensity, the faintest first, neighbours in a column joined.
    /// Intensity follows the logarithm of the count, so that a tail of single values shows.
    pub(super) fn levels(&self) -> Vec<Vec<Rectangle>> {
        let mut levels = vec![Vec::new(); LEVELS];
        let most = self.counts.iter().copied().max().unwrap_or(0);
        let scale = (most as f64).ln_1p().max(f64::MIN_POSITIVE);
        for (column, counts) in self.counts.chunks(self.rows).enumerate() {
            let mut open: Option<(usize, usize)> = None;
            for row in 0..=self.rows {
                let level = counts.get(row).filter(|count| **count > 0).map(|count| {
                    let share = (*count as f64).ln_1p() / scale;
                    ((share * LEVELS as f64).ceil() as usize).clamp(1, LEVELS) - 1
                });
                if let Some((level_below, first)) = open
                    && level != Some(level_below)
                {
                    levels[level_below].push(self.rectangle(column, first, row));
                    open = None;
                }
                if open.is_none() {
                    open = level.map(|level| (level, row));
                }
            }
        }
        levels
    }

    fn rectangle(&self, column: usize, first: usize, end: usize) -> Rectangle {
        let from_x = self.from_x + self.column * column as f64;
        Rectangle {
            x: (from_x, from_x + self.column),
            y: (self.edge(first), self.edge(end)),
        }
    }

    /// The low edge of a row.
    fn edge(&self, row: usize) -> f64 {
        self.low * self.factor.powi(row as i32)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rectangle {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

const LOWEST_SHARE: f64 = 0.002;
/// Shades of a heat map.
pub(super) const LEVELS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_one_rectangle_and_neighbours_are_joined() {
        let mut map = HeatMap::new(0.0, 1.0, (1.0, 1_000.0), 3);
        map.add(0, 5.0, 7);
        map.add(0, 50.0, 7);
        map.add(2, 0.001, 1);
        map.add(2, 1e9, 1);
        assert_eq!(map.x_range(), (0.0, 3.0));
        let levels = map.levels();
        let all: Vec<&Rectangle> = levels.iter().flatten().collect();
        assert_eq!(all.len(), 3);
        let joined = levels[LEVELS - 1][0];
        assert_eq!(joined.x, (0.0, 1.0));
        assert!((joined.y.1 - 100.0).abs() < 1e-6);
        assert!(HeatMap::new(0.0, 1.0, (1.0, 10.0), 4).y_range().is_none());
    }

    #[test]
    fn one_fast_value_among_thousands_adds_no_decades() {
        let mut map = HeatMap::new(0.0, 1.0, (1.0, 1_000.0), 3);
        map.add(0, 500.0, 5_000);
        map.add(0, 2.0, 1);
        assert!(map.y_range().is_some_and(|(low, _)| low > 99.0));
        map.add(0, 2.0, 500);
        assert!(map.y_range().is_some_and(|(low, _)| low < 2.0));
    }
}
