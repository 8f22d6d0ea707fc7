use gemm::{Parallelism, gemm};

/// A matrix in a slice: where its element of a row and a column lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    values: &'a [f32],
    /// From one row to the next, and from one column to the next.
    strides: [usize; 2],
}

impl<'a> View<'a> {
    /// Row after row, `columns` wide.
    pub(super) fn rows(values: &'a [f32], columns: usize) -> Self {
        Self { values, strides: [columns, 1] }
    }

    /// Rows become columns.
    pub(super) fn transposed(self) -> Self {
        let [row, column] = self.strides;
        Self { strides: [column, row], ..self }
    }

    fn holds(&self, rows: usize, columns: usize) -> bool {
        let [row, column] = self.strides;
        rows * columns == 0 || (rows - 1) * row + (columns - 1) * column < self.values.len()
    }
}

/// `out [rows, columns] = a · b`, or `+=` where it `adds`, on this thread; `size` is rows, columns and reduction.
///
/// # Panics
/// When a slice is too short.
pub(super) fn product(size: [usize; 3], out: &mut [f32], adds: bool, a: View<'_>, b: View<'_>) {
    product_on(Parallelism::None, size, out, adds, a, b);
}

/// [`product`] on these threads.
///
/// # Panics
/// When a slice is too short.
pub(super) fn product_on(
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
    // SAFETY: every element of the three matrices lies in its slice, as was just asserted.
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
