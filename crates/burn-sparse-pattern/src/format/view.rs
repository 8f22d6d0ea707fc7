use serde::{Deserialize, Serialize};

use crate::Axes;

/// View of a stored weight as a matrix `[rows = outputs, cols = reduction]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum View {
    /// Linear layer that stores `[cols, rows]`, as Burn's does.
    Linear {
        /// Number of outputs.
        rows: usize,
        /// Number of inputs.
        cols: usize,
    },
    /// Layer that stores `[rows, channels, kernel…]`; columns are `kernel…` by `channels`, with the
    /// channel varying fastest. With an empty kernel, this is PyTorch's linear layer.
    Conv {
        /// Number of output channels.
        rows: usize,
        /// Number of input channels per group.
        channels: usize,
        /// Size of the kernel along each axis.
        kernel: Vec<usize>,
    },
}

impl View {
    /// Returns the number of rows (outputs).
    pub fn rows(&self) -> usize {
        match self {
            Self::Linear { rows, .. } | Self::Conv { rows, .. } => *rows,
        }
    }

    /// Returns the number of columns (reduction).
    pub fn cols(&self) -> usize {
        match self {
            Self::Linear { cols, .. } => *cols,
            // Saturates because a file may claim any kernel; a view that is too large is rejected
            // later.
            Self::Conv { channels, kernel, .. } => {
                kernel.iter().fold(*channels, |cols, side| cols.saturating_mul(*side))
            }
        }
    }

    /// Returns `true` if the weight has a kernel: if it is no linear layer's.
    pub fn is_convolution(&self) -> bool {
        matches!(self, Self::Conv { kernel, .. } if !kernel.is_empty())
    }

    /// Returns the axes that distributions by shape depend on.
    pub fn axes(&self) -> Axes {
        match self {
            Self::Linear { rows, cols } => Axes { outputs: *rows, inputs: *cols, kernel: vec![] },
            Self::Conv { rows, channels, kernel } => {
                Axes { outputs: *rows, inputs: *channels, kernel: kernel.clone() }
            }
        }
    }

    /// Converts the stored elements to a row-major matrix.
    pub fn to_matrix<T: Copy + Default>(&self, stored: &[T]) -> Vec<T> {
        let mut matrix = vec![T::default(); stored.len()];
        self.swaps(|stored_at, matrix_at| matrix[matrix_at] = stored[stored_at]);
        matrix
    }

    /// Converts a row-major matrix to the order in which the layer stores it.
    pub fn to_stored<T: Copy + Default>(&self, matrix: &[T]) -> Vec<T> {
        let mut stored = vec![T::default(); matrix.len()];
        self.swaps(|stored_at, matrix_at| stored[stored_at] = matrix[matrix_at]);
        stored
    }

    /// Returns the shape that the layer stores.
    pub fn stored_shape(&self) -> Vec<usize> {
        match self {
            Self::Linear { rows, cols } => vec![*cols, *rows],
            Self::Conv { rows, channels, kernel } => {
                [&[*rows, *channels], kernel.as_slice()].concat()
            }
        }
    }

    /// Returns the stored index of the element at a row and column.
    pub fn stored_index(&self, row: usize, col: usize) -> usize {
        match self {
            Self::Linear { rows, .. } => col * rows + row,
            Self::Conv { channels, kernel, .. } => {
                let (channel, at) = (col % channels, col / channels);
                (row * channels + channel) * kernel.iter().product::<usize>() + at
            }
        }
    }

    /// Calls `each(stored index, matrix index)` for every element, in square tiles. Avoids the cache
    /// miss per element of a transposition that strides through memory one element at a time.
    fn swaps(&self, mut each: impl FnMut(usize, usize)) {
        const TILE: usize = 32;
        let (rows, cols) = (self.rows(), self.cols());
        for top in (0..rows).step_by(TILE) {
            for left in (0..cols).step_by(TILE) {
                for row in top..(top + TILE).min(rows) {
                    for col in left..(left + TILE).min(cols) {
                        each(self.stored_index(row, col), row * cols + col);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_weight_is_transposed_and_restored() {
        let view = View::Linear { rows: 2, cols: 3 };
        assert_eq!((view.rows(), view.cols()), (2, 3));
        let stored = [1, 2, 3, 4, 5, 6];
        assert_eq!(view.to_matrix(&stored), [1, 3, 5, 2, 4, 6]);
        assert_eq!(view.to_stored(&view.to_matrix(&stored)), stored);
    }

    #[test]
    fn a_convolution_is_flattened_with_the_input_channel_fastest() {
        // [out 1, in 2, 1 x 3]: channel 0 holds 0 1 2, channel 1 holds 10 11 12.
        let view = View::Conv { rows: 1, channels: 2, kernel: vec![1, 3] };
        let stored = [0, 1, 2, 10, 11, 12];
        assert_eq!(view.to_matrix(&stored), [0, 10, 1, 11, 2, 12]);
        assert_eq!(view.to_stored(&view.to_matrix(&stored)), stored);
    }
}
