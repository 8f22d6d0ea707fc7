use gemm::{Parallelism, gemm};

/// View of a slice as a strided matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    values: &'a [f32],
    /// Distances from one row to the next and from one column to the next.
    strides: [usize; 2],
}

impl<'a> View<'a> {
    /// Views `values` as a row-major matrix with `columns` columns.
    pub(crate) fn rows(values: &'a [f32], columns: usize) -> Self {
        Self { values, strides: [columns, 1] }
    }

    /// Views `values` as a matrix with the given strides, of rows and of columns.
    pub(crate) fn strided(values: &'a [f32], strides: [usize; 2]) -> Self {
        Self { values, strides }
    }

    /// Swaps rows and columns.
    pub(crate) fn transposed(self) -> Self {
        let [row, column] = self.strides;
        Self { strides: [column, row], ..self }
    }

    fn holds(&self, rows: usize, columns: usize) -> bool {
        let [row, column] = self.strides;
        rows * columns == 0 || (rows - 1) * row + (columns - 1) * column < self.values.len()
    }
}

/// Computes `out [rows, columns] = a · b`, or `+=` if `adds` is set, on the calling thread; `size` holds the rows, the
/// columns, and the length of the reduction.
///
/// # Panics
/// Panics if a slice is too short.
pub(crate) fn product(size: [usize; 3], out: &mut [f32], adds: bool, a: View<'_>, b: View<'_>) {
    product_on(Parallelism::None, size, out, adds, a, b);
}

/// Computes [`product`] on the given threads.
///
/// # Panics
/// Panics if a slice is too short.
pub(crate) fn product_on(
    threads: Parallelism,
    size: [usize; 3],
    out: &mut [f32],
    adds: bool,
    a: View<'_>,
    b: View<'_>,
) {
    let [rows, columns, reduction] = size;
    assert!(out.len() >= rows * columns && a.holds(rows, reduction) && b.holds(reduction, columns));
    let [a_strides, b_strides] = [a, b].map(|view| view.strides.map(|stride| stride as isize));
    // SAFETY: every element of the three matrices is inside its slice, as asserted above.
    unsafe {
        gemm(
            rows,
            columns,
            reduction,
            out.as_mut_ptr(),
            1,
            columns as isize,
            adds,
            a.values.as_ptr(),
            a_strides[1],
            a_strides[0],
            b.values.as_ptr(),
            b_strides[1],
            b_strides[0],
            1.0,
            1.0,
            false,
            false,
            false,
            threads,
        );
    }
}
