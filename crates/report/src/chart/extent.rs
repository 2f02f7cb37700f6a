//! How far the layers of a chart reach.

use super::Shape;

/// The extent of all layers.
pub(super) struct Extent {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

impl Default for Extent {
    fn default() -> Self {
        Self {
            x: (f64::INFINITY, f64::NEG_INFINITY),
            y: (f64::INFINITY, f64::NEG_INFINITY),
        }
    }
}

impl Extent {
    pub(super) const fn is_empty(&self) -> bool {
        self.x.0 > self.x.1 || self.y.0 > self.y.1
    }

    pub(super) fn take(&mut self, shape: &Shape) {
        match shape {
            Shape::Line(pieces) => pieces.iter().flatten().for_each(|point| self.point(*point)),
            Shape::Steps(pieces) => {
                for (from, to, y) in pieces.iter().flatten() {
                    self.point((*from, *y));
                    self.point((*to, *y));
                }
            }
            Shape::Dots(points) => points.iter().for_each(|point| self.point(*point)),
            Shape::Ranges(ranges) => {
                for (x, low, high) in ranges {
                    self.point((*x, *low));
                    self.point((*x, *high));
                }
            }
            Shape::Bars(bars) => {
                for bar in bars {
                    self.point((bar.from, 0.0));
                    self.point((bar.to, bar.height));
                }
            }
            Shape::Heat(map) => {
                if let Some((low, high)) = map.y_range() {
                    let (from, to) = map.x_range();
                    self.point((from, low));
                    self.point((to, high));
                }
            }
        }
    }

    fn point(&mut self, (x, y): (f64, f64)) {
        self.x = (self.x.0.min(x), self.x.1.max(x));
        self.also_y(y);
    }

    pub(super) fn also_y(&mut self, y: f64) {
        self.y = (self.y.0.min(y), self.y.1.max(y));
    }
}
