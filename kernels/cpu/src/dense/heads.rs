use crate::gemm::View;

/// Vectors of every head and position: `[batch, heads, positions, d_head]`, with any strides except that of the features.
#[derive(Clone, Copy)]
pub struct Heads<'a> {
    /// Elements, starting with the first of the first vector.
    pub values: &'a [f32],
    /// `[batch, heads, positions, d_head]`.
    pub shape: [usize; 4],
    /// Distances from one batch, head and position to the next.
    pub strides: [usize; 3],
}

/// Vectors of some positions of a head.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'a> {
    /// Elements from the first of the first vector to the last of the last vector.
    pub(super) values: &'a [f32],
    /// Distance from one position to the next.
    pub(super) stride: usize,
}

impl<'a> Heads<'a> {
    /// Returns `count` positions of a head, from `position` on.
    pub(super) fn vectors(
        &self,
        batch: usize,
        head: usize,
        position: usize,
        count: usize,
    ) -> Vectors<'a> {
        let [of_batch, of_head, stride] = self.strides;
        let from = batch * of_batch + head * of_head + position * stride;
        let to = from + (count - 1) * stride + self.shape[3];
        Vectors { values: &self.values[from..to], stride }
    }
}

impl<'a> Vectors<'a> {
    /// Returns the vectors as the rows of a matrix.
    pub(super) fn matrix(self) -> View<'a> {
        View::strided(self.values, [self.stride, 1])
    }
}
