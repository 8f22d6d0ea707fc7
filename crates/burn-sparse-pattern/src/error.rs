use thiserror::Error;

/// Error for a pattern, mask or packed matrix that was rejected.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The text is not a pattern.
    #[error("unknown pattern `{text}`: {reason}")]
    Spelling {
        /// Text that was given.
        text: String,
        /// Problem with the text, and what was expected.
        reason: String,
    },
    /// A parameter of a pattern is out of range.
    #[error("pattern {pattern}: `{parameter}` is {found}, expected {expected}")]
    Parameter {
        /// Name of the pattern.
        pattern: &'static str,
        /// Name of the parameter.
        parameter: &'static str,
        /// Value of the parameter.
        found: usize,
        /// Valid range.
        expected: String,
    },
    /// The sparsity is not a share.
    #[error("sparsity is {found}, expected a share of zeros from 0 to below 1 (0.75 is 75 %)")]
    Sparsity {
        /// Value given.
        found: f64,
    },
    /// The target keeps nothing or everything of a unit that keeps a whole number of elements.
    #[error(
        "sparsity {sparsity} keeps {kept} of {of} {unit}: the nearest valid sparsities are {nearest}"
    )]
    Degenerate {
        /// Target sparsity.
        sparsity: f64,
        /// Whole number of kept elements that the target rounds to.
        kept: usize,
        /// Size of the unit.
        of: usize,
        /// Description of the elements of the unit.
        unit: String,
        /// Nearest sparsities that keep something and drop something.
        nearest: String,
    },
    /// The number of values does not match the shape.
    #[error("a {rows}x{cols} matrix has {expected} values, found {found}")]
    Length {
        /// Number of rows (outputs).
        rows: usize,
        /// Number of columns (reduction).
        cols: usize,
        /// `rows * cols`.
        expected: usize,
        /// Number of values given.
        found: usize,
    },
    /// The matrix has no elements, or too many to index.
    #[error("a {rows}x{cols} matrix cannot be sparse: expected at least 1x1 and below 2^32 values")]
    Shape {
        /// Number of rows (outputs).
        rows: usize,
        /// Number of columns (reduction).
        cols: usize,
    },
    /// A score cannot rank a weight: it is negative or not finite.
    #[error("score at row {row}, column {col} is {found}: expected a finite value of at least 0")]
    Score {
        /// Row (output).
        row: usize,
        /// Column (reduction).
        col: usize,
        /// Value found.
        found: f32,
    },
    /// The mask violates its pattern.
    #[error("mask breaks {pattern} at {place}: expected {expected}, found {found}")]
    Violation {
        /// Pattern, in the notation of recipes.
        pattern: String,
        /// Row, block or group of the violation.
        place: String,
        /// Value that the pattern requires there.
        expected: String,
        /// Value found in the mask.
        found: String,
    },
    /// The row order is not a permutation of the rows.
    #[error("row order of {rows} rows is no permutation: {reason}")]
    RowOrder {
        /// Number of rows.
        rows: usize,
        /// First invalid entry, or another reason.
        reason: String,
    },
    /// Packed arrays contradict each other.
    #[error("packed {layout} matrix: {what} is {found}, expected {expected}")]
    Packed {
        /// Name of the layout.
        layout: &'static str,
        /// Array or entry that is wrong.
        what: String,
        /// Value found.
        found: String,
        /// Value expected.
        expected: String,
    },
}
