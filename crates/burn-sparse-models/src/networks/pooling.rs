use burn::config::Config;
use burn::tensor::{Bool, Tensor};

/// How the features of a text's tokens become one vector.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// Mean of all tokens.
    Mean,
    /// First token, `[CLS]` of BERT.
    Cls,
}

impl Pooling {
    /// Returns a vector for each text.
    ///
    /// # Shapes
    /// - `x`: `[batch, positions, d_model]`
    /// - `padding`: `[batch, positions]`, `true` for padding; `None` if there is none
    /// - output: `[batch, d_model]`
    pub fn apply(self, x: Tensor<3>, padding: Option<&Tensor<2, Bool>>) -> Tensor<2> {
        let [batch, positions, _] = x.dims();
        match (self, padding) {
            (Self::Mean, None) => self.sum(x, None) / positions as f64,
            (Self::Mean, Some(padding)) => {
                let tokens = padding.clone().bool_not().float().sum_dim(1);
                self.sum(x, Some(padding)) / tokens.reshape([batch, 1])
            }
            (Self::Cls, _) => self.sum(x, padding),
        }
    }

    /// Returns the vectors of [`Self::apply`], each scaled to length one.
    ///
    /// # Shapes
    /// As [`Self::apply`].
    pub fn direction(self, x: Tensor<3>, padding: Option<&Tensor<2, Bool>>) -> Tensor<2> {
        // A mean and a sum have the same direction.
        let sum = self.sum(x, padding);
        let length = sum.clone().powf_scalar(2.0).sum_dim(1).sqrt().clamp_min(1e-12);
        sum / length
    }

    /// Returns the sum over the tokens that count.
    fn sum(self, x: Tensor<3>, padding: Option<&Tensor<2, Bool>>) -> Tensor<2> {
        let [batch, positions, d_model] = x.dims();
        let sum = match (self, padding) {
            (Self::Cls, _) => x.narrow(1, 0, 1),
            (Self::Mean, None) => x.sum_dim(1),
            (Self::Mean, Some(padding)) => {
                let padding = padding.clone().reshape([batch, positions, 1]);
                x.mask_fill(padding.expand([batch, positions, d_model]), 0.0).sum_dim(1)
            }
        };
        sum.reshape([batch, d_model])
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn padding_does_not_count() {
        let device = Device::flex();
        let x = Tensor::<3>::from_data(
            [[[3.0, 0.0], [0.0, 4.0], [9.0, 9.0]], [[1.0, 1.0], [2.0, 0.0], [3.0, 2.0]]],
            &device,
        );
        let padding =
            Tensor::<2, Bool>::from_data([[false, false, true], [false, false, false]], &device);
        let values = |x: Tensor<2>| x.into_data().try_into_vec::<f32>().unwrap();
        let mean = Pooling::Mean.apply(x.clone(), Some(&padding));
        assert_eq!(values(mean), [1.5, 2.0, 2.0, 1.0]);
        let direction = values(Pooling::Mean.direction(x.clone(), Some(&padding)));
        assert!((direction[0] - 0.6).abs() < 1e-6 && (direction[1] - 0.8).abs() < 1e-6);
        assert_eq!(values(Pooling::Mean.apply(x.clone(), None))[..2], [4.0, 13.0 / 3.0]);
        assert_eq!(values(Pooling::Cls.apply(x.clone(), Some(&padding))), [3.0, 0.0, 1.0, 1.0]);
        assert_eq!(values(Pooling::Cls.direction(x, Some(&padding)))[..2], [1.0, 0.0]);
    }
}
