use serde::{Deserialize, Serialize};

/// Geometry of a 2D convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Pixels between neighbouring positions of the kernel.
    pub stride: [usize; 2],
    /// Pixels between neighbouring elements of the kernel.
    pub dilation: [usize; 2],
    /// Zero padding before and after, along the height and the width.
    pub padding: [(usize, usize); 2],
}

impl Window {
    /// Returns the height and width of the output, given those of the input; 0 if the kernel does not fit.
    pub fn output(&self, input: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|axis| {
            let (before, after) = self.padding[axis];
            // Saturating: a sum that wraps would seem to fit, and kernels would read out of bounds.
            let reach = self.dilation[axis].saturating_mul(self.kernel[axis].saturating_sub(1));
            let padded = before.saturating_add(input[axis]).saturating_add(after);
            let places = padded.saturating_sub(reach);
            places.div_ceil(self.stride[axis])
        })
    }

    /// Same as [`Self::output`], for operators without empty outputs.
    ///
    /// # Panics
    /// Panics if the kernel does not fit.
    pub fn output_of(&self, operator: &str, [height, width]: [usize; 2]) -> [usize; 2] {
        let output = self.output([height, width]);
        assert!(
            !output.contains(&0),
            "{operator}: {self:?} does not fit an image of {height} x {width}"
        );
        output
    }
}
