//! AdamW that keeps its moments in bf16.

use burn::optim::{AdamW, AdamWState, AdaptiveMomentumState, LearningRate, Optimizer};
use burn::tensor::{DType, Device, Tensor, TensorData};
use half::bf16;

use crate::values;

/// AdamW whose state takes half the memory: both moments are bf16 between two steps, and f32 within one.
///
/// They are rounded stochastically: up with a probability equal to the truncated fraction. The second moment moves by a
/// thousandth of the squared gradient at a time; bf16 has relative steps of 1/128 to 1/256, so rounding to nearest would
/// never change it. Rounding depends only on the number of steps and on the position of an element: a resumed run takes the
/// same steps.
///
/// Moments are rounded on the host: on a GPU every step copies them to the host and back.
#[derive(Clone)]
pub(super) struct Bf16AdamW {
    pub(super) exact: AdamW,
}

impl Optimizer for Bf16AdamW {
    type State<const D: usize> = AdamWState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<AdamWState<D>>,
    ) -> (Tensor<D>, Option<AdamWState<D>>) {
        let state = state.map(|state| moments(state, |moment, _| moment.cast(DType::F32)));
        let (tensor, state) = self.exact.step(lr, tensor, grad, state);
        (tensor, state.map(|state| moments(state, rounded)))
    }

    fn to_device<const D: usize>(state: AdamWState<D>, device: &Device) -> AdamWState<D> {
        AdamW::to_device(state, device)
    }
}

/// Returns a state with edited moments: `edit` gets each moment and a number that is unique to this moment and step.
fn moments<const D: usize>(
    state: AdamWState<D>,
    edit: impl Fn(Tensor<D>, u64) -> Tensor<D>,
) -> AdamWState<D> {
    let AdaptiveMomentumState { time, moment_1, moment_2, max_moment_2 } = state.momentum;
    let seed = 2 * time as u64;
    AdamWState::new(AdaptiveMomentumState {
        time,
        moment_1: edit(moment_1, seed),
        moment_2: edit(moment_2, seed + 1),
        max_moment_2,
    })
}

fn rounded<const D: usize>(moment: Tensor<D>, seed: u64) -> Tensor<D> {
    let (device, shape) = (moment.device(), moment.shape());
    let start = mixed(seed);
    let round = |(at, value): (usize, f32)| stochastic(value, start, at as u32);
    let values: Vec<bf16> = values(moment).into_iter().enumerate().map(round).collect();
    Tensor::from_data(TensorData::new(values, shape), (&device, DType::BF16))
}

/// Rounds one value up with a probability equal to the fraction in its truncated bits. Elements follow a Weyl sequence,
/// whose start differs from step to step.
fn stochastic(value: f32, start: u32, at: u32) -> bf16 {
    const GOLDEN: u32 = 0x9E37_79B9;
    if !value.is_finite() {
        return bf16::from_f32(value);
    }
    let dither = start.wrapping_add(GOLDEN.wrapping_mul(at)) >> 16;
    bf16::from_bits((value.to_bits().wrapping_add(dither) >> 16) as u16)
}

/// Returns 32 well-mixed bits of a number (SplitMix64).
fn mixed(seed: u64) -> u32 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use burn::optim::AdamWConfig;

    use super::*;

    #[test]
    fn rounding_is_right_on_average_and_never_further_than_a_neighbour() {
        for value in [1.0, 1.003, -0.777, 3.3e-12, 1.99999, 6.5e4] {
            let value = value as f32;
            let below = bf16::from_bits((value.to_bits() >> 16) as u16);
            let above = bf16::from_bits(below.to_bits() + 1);
            let rounds = 20_000;
            let mut sum = 0.0;
            for step in 0..rounds {
                let found = stochastic(value, mixed(step), 5);
                assert!(found == below || (found == above && value != below.to_f32()));
                sum += f64::from(found.to_f32());
            }
            let gap = f64::from((above.to_f32() - below.to_f32()).abs());
            let mean = sum / rounds as f64;
            assert!((mean - f64::from(value)).abs() < 0.02 * gap, "{value} became {mean}");
        }
        assert!(stochastic(f32::NAN, 7, 1).is_nan());
        assert_eq!(stochastic(f32::INFINITY, u32::MAX, 1), bf16::INFINITY);
    }

    /// Gradients fall to a tenth, which rounding to the nearest value would never notice.
    #[test]
    fn moments_follow_those_in_f32() {
        let device = Device::flex();
        let exact = AdamWConfig::new().build();
        let small = Bf16AdamW { exact: exact.clone() };
        let mut tensors = [Tensor::<2>::ones([16, 16], &device), Tensor::ones([16, 16], &device)];
        let (mut state, mut rounded) = (None, None);
        for step in 0..3000 {
            let grad = Tensor::<2>::ones([16, 16], &device) * if step < 1000 { 1.0 } else { 0.1 };
            let [a, b] = tensors;
            let (a, next) = exact.step(1e-4, a, grad.clone(), state);
            let (b, next_rounded) = small.step(1e-4, b, grad, rounded);
            (tensors, state, rounded) = ([a, b], next, next_rounded);
        }
        let second = |state: Option<AdamWState<2>>| state.unwrap().momentum.moment_2;
        let rounded = second(rounded);
        assert_eq!(rounded.dtype(), DType::BF16);
        let ratio = (rounded.cast(DType::F32).mean() / second(state).mean()).into_scalar::<f32>();
        assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
        let [a, b] = tensors;
        let apart = (a.clone() - b).abs().max().into_scalar::<f32>();
        let moved = (a - 1.0).abs().min().into_scalar::<f32>();
        assert!(apart < 0.05 * moved, "{apart} of {moved}");
    }
}
