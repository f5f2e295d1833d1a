//! The simplex method, for the small packings that a selection is.

/// Which amounts to send, so that they sum up to the most: each row bounds a weighted sum of them.
pub(super) struct Program {
    columns: usize,
    /// A row has the coefficients of the amounts, of a slack for each row, and what it is bounded by.
    rows: Vec<Vec<f64>>,
}

impl Program {
    /// Of so many amounts.
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Bounds Σ coefficient × amount. Nothing may be negative, so sending nothing is always possible.
    pub(super) fn bound(&mut self, coefficients: impl IntoIterator<Item = (usize, f64)>, most: f64) {
        let mut row = vec![0.0; self.columns + 1];
        for (column, coefficient) in coefficients {
            row[column] += coefficient;
        }
        row[self.columns] = most;
        self.rows.push(row);
    }

    /// The most that the amounts can sum up to. Each amount must be bounded by some row.
    ///
    /// Dantzig's simplex method on the condensed tableau; by Bland's rule (1977) it cannot go round in circles.
    pub(super) fn maximum(mut self) -> f64 {
        let mut gains = vec![1.0; self.columns];
        gains.push(0.0);
        // Names of what stands in the columns and the rows: amounts first, then slacks.
        let mut outside: Vec<usize> = (0..self.columns).collect();
        let mut inside: Vec<usize> = (0..self.rows.len()).map(|row| self.columns + row).collect();
        while let Some(column) = entering(&gains[..self.columns], &outside) {
            let Some(row) = self.leaving(column, &inside) else { break };
            std::mem::swap(&mut outside[column], &mut inside[row]);
            self.pivot(row, column, &mut gains);
        }
        -gains[self.columns]
    }

    /// The row that bounds the column most, of equal ones that of the lowest name.
    fn leaving(&self, column: usize, inside: &[usize]) -> Option<usize> {
        let ratio = |row: &Vec<f64>| row[self.columns] / row[column];
        let bounding = (0..self.rows.len()).filter(|row| self.rows[*row][column] > TINY);
        bounding.min_by(|a, b| {
            let ratios = ratio(&self.rows[*a]).total_cmp(&ratio(&self.rows[*b]));
            ratios.then(inside[*a].cmp(&inside[*b]))
        })
    }

    fn pivot(&mut self, row: usize, column: usize, gains: &mut [f64]) {
        let mut pivot = std::mem::take(&mut self.rows[row]);
        let by = pivot[column];
        pivot[column] = 1.0;
        pivot.iter_mut().for_each(|cell| *cell /= by);
        for other in self.rows.iter_mut().filter(|other| !other.is_empty()) {
            eliminate(other, &pivot, column);
        }
        eliminate(gains, &pivot, column);
        self.rows[row] = pivot;
    }
}

/// A column that gains: that of the lowest name.
fn entering(gains: &[f64], outside: &[usize]) -> Option<usize> {
    (0..gains.len()).filter(|column| gains[*column] > TINY).min_by_key(|column| outside[*column])
}

fn eliminate(row: &mut [f64], pivot: &[f64], column: usize) {
    let factor = std::mem::replace(&mut row[column], 0.0);
    if factor != 0.0 {
        row.iter_mut().zip(pivot).for_each(|(cell, by)| *cell -= factor * by);
    }
}

/// What is smaller than this is what rounding left of 0. Coefficients are numbers of uses of a link, near 1.
const TINY: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_paths_that_share_links_by_twos_get_halves() {
        let mut program = Program::new(3);
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            program.bound([(a, 1.0), (b, 1.0)], 1.0);
        }
        assert!((program.maximum() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn a_link_that_is_used_twice_counts_twice() {
        let mut program = Program::new(1);
        program.bound([(0, 1.0), (0, 1.0)], 10.0);
        assert!((program.maximum() - 5.0).abs() < 1e-12);
    }
}
