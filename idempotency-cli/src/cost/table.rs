//! A Markdown table whose columns are aligned, so that it can be read in a terminal too.

use std::fmt;

/// A header and rows of the same length.
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    /// Returns a table without rows. `first` are the headers of the first columns, `others` those of the others.
    pub(super) fn new(first: impl Iterator<Item = String>, others: &[String]) -> Self {
        Self(vec![first.chain(others.iter().cloned()).collect()])
    }

    /// Adds a row.
    pub(super) fn row<const N: usize>(
        &mut self,
        first: [String; N],
        others: impl Iterator<Item = String>,
    ) {
        self.0.push(first.into_iter().chain(others).collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.0.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, row) in self.0.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                write!(f, "| {cell:<width$} ", width = self.width(column))?;
            }
            writeln!(f, "|")?;
            if number == 0 {
                for column in 0..row.len() {
                    write!(f, "|{}", "-".repeat(self.width(column) + 2))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let text = |text: &str| text.to_owned();
        let mut table = Table::new([text("call")].into_iter(), &[text("1 KB")]);
        table.row([text("a long name")], [text("3")].into_iter());
        assert_eq!(
            table.to_string(),
            "| call        | 1 KB |\n|-------------|------|\n| a long name | 3    |\n"
        );
    }
}
