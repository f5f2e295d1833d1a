//! A table, whatever is in it, as text for a terminal or as Markdown for a page.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// A table with a header. Columns in which no row has anything are left out.
#[derive(Clone, Debug)]
pub struct Grid {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// What stands in a row and a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Aligned to the left.
    Text(String),
    /// Aligned to the right, by the last digit.
    Number(String),
    /// A dash, where other rows have something.
    Absent,
}

impl Grid {
    /// A table without rows. Units stand in the header.
    #[must_use]
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    /// The same with these rows.
    #[must_use]
    pub fn with_rows(mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// Aligned by spaces; nothing at all if there is no row.
    #[must_use]
    pub fn text(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let columns = self.columns();
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(columns.iter().map(|&column| title(self.header[column])));
        table.add_rows(self.rows.iter().map(|row| columns.iter().map(|&column| row[column].to_string())));
        for (shown, column) in table.column_iter_mut().zip(&columns) {
            shown.set_padding((0, 2));
            shown.set_cell_alignment(if self.is_numeric(*column) {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            });
        }
        format!("{}\n", table.trim_fmt())
    }

    /// A table of GitHub's Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let columns = self.columns();
        let rule = columns.iter().map(|&column| if self.is_numeric(column) { "--:" } else { "---" });
        let header = markdown_row(columns.iter().map(|&column| self.header[column].to_owned()));
        let rows = self.rows.iter();
        let rows = rows.map(|row| markdown_row(columns.iter().map(|&column| row[column].to_string())));
        format!("{header}{}{}", markdown_row(rule.map(str::to_owned)), rows.collect::<String>())
    }

    fn columns(&self) -> Vec<usize> {
        let is_shown = |&column: &usize| self.rows.iter().any(|row| row[column] != Cell::Absent);
        (0..self.header.len()).filter(is_shown).collect()
    }

    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row[column], Cell::Number(_)))
    }
}

impl Cell {
    /// A text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A whole number.
    #[must_use]
    pub fn count(number: impl std::fmt::Display) -> Self {
        Self::Number(number.to_string())
    }

    /// A number with so many decimals, if there is one.
    #[must_use]
    pub fn fixed(number: impl Into<Option<f64>>, decimals: usize) -> Self {
        number.into().map_or(Self::Absent, |number| Self::Number(format!("{number:.decimals$}")))
    }

    /// Between what the values of several runs lay, with so many decimals; nothing if they are all the same.
    #[must_use]
    pub fn range(ends: Option<(f64, f64)>, decimals: usize) -> Self {
        let several = ends.filter(|(low, high)| low < high);
        several
            .map_or(Self::Absent, |(low, high)| Self::Number(format!("{low:.decimals$}–{high:.decimals$}")))
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) | Self::Number(text) => f.write_str(text),
            Self::Absent => f.write_str("-"),
        }
    }
}

/// In capitals, but for the unit.
fn title(header: &str) -> String {
    let (what, unit) = header.split_at(header.find('(').unwrap_or(header.len()));
    what.to_uppercase() + unit
}

fn markdown_row(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}
