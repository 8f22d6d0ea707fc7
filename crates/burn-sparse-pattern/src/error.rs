use thiserror::Error;

/// Why a pattern, a mask or a packed matrix was refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The text is no pattern.
    #[error("unknown pattern `{text}`: {reason}")]
    Spelling {
        /// What was written.
        text: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// A parameter of a pattern is out of its range.
    #[error("pattern {pattern}: `{parameter}` is {found}, expected {expected}")]
    Parameter {
        /// The pattern's kind.
        pattern: &'static str,
        /// The parameter's name.
        parameter: &'static str,
        /// Its value.
        found: usize,
        /// What it may be.
        expected: String,
    },
    /// A sparsity that is not a share.
    #[error("sparsity is {found}, expected a share of zeros from 0 to below 1 (0.75 is 75 %)")]
    Sparsity {
        /// The value given.
        found: f64,
    },
    /// The target keeps nothing or everything of a unit that must keep a whole count.
    #[error(
        "sparsity {sparsity} keeps {kept} of {of} {unit}: the nearest valid sparsities are {nearest}"
    )]
    Degenerate {
        /// The target.
        sparsity: f64,
        /// The whole count it rounds to.
        kept: usize,
        /// The size of the unit.
        of: usize,
        /// What is counted.
        unit: String,
        /// Sparsities that do keep something and drop something.
        nearest: String,
    },
    /// The number of values does not fit the shape.
    #[error("a {rows}x{cols} matrix has {expected} values, found {found}")]
    Length {
        /// Rows (outputs).
        rows: usize,
        /// Columns (reduction).
        cols: usize,
        /// `rows * cols`.
        expected: usize,
        /// The number of values given.
        found: usize,
    },
    /// The matrix has no elements, or too many to index.
    #[error("a {rows}x{cols} matrix cannot be sparse: expected at least 1x1 and below 2^32 values")]
    Shape {
        /// Rows (outputs).
        rows: usize,
        /// Columns (reduction).
        cols: usize,
    },
    /// A score that cannot rank a weight.
    #[error("score at row {row}, column {col} is {found}: expected a finite value of at least 0")]
    Score {
        /// Row (output).
        row: usize,
        /// Column (reduction).
        col: usize,
        /// The value found.
        found: f32,
    },
    /// A mask that its pattern does not allow.
    #[error("mask breaks {pattern} at {place}: expected {expected}, found {found}")]
    Violation {
        /// The pattern, spelled as in a recipe.
        pattern: String,
        /// Row, block or group.
        place: String,
        /// What the pattern asks for there.
        expected: String,
        /// What the mask has.
        found: String,
    },
    /// A row order that is not a permutation.
    #[error("row order of {rows} rows is no permutation: {reason}")]
    RowOrder {
        /// The number of rows.
        rows: usize,
        /// The first entry that breaks it.
        reason: String,
    },
    /// Packed arrays that contradict each other.
    #[error("packed {layout} matrix: {what} is {found}, expected {expected}")]
    Packed {
        /// The layout.
        layout: &'static str,
        /// The array or entry.
        what: String,
        /// What was found.
        found: String,
        /// What would fit.
        expected: String,
    },
}
