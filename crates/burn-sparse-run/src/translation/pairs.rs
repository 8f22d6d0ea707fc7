use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

use super::{BEGIN, PAD};
use burn_sparse_models::TranslationBatch;

/// Tokens of a sentence in both languages.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) source: Vec<i32>,
    pub(crate) target: Vec<i32>,
}

/// Builds a batch of pairs, padded to the longest sentence.
pub(crate) fn batch<'a>(
    pairs: impl Iterator<Item = &'a Pair>,
    device: &Device,
) -> TranslationBatch {
    let pairs: Vec<&Pair> = pairs.collect();
    let sources: Vec<&[i32]> = pairs.iter().map(|pair| pair.source.as_slice()).collect();
    let shifted: Vec<Vec<i32>> = pairs
        .iter()
        .map(|pair| [&[BEGIN], &pair.target[..pair.target.len() - 1]].concat())
        .collect();
    let shifted: Vec<&[i32]> = shifted.iter().map(Vec::as_slice).collect();
    let positions = longest(&shifted);
    let places = pairs.iter().enumerate().flat_map(|(row, pair)| {
        (0..pair.target.len()).map(move |at| (row * positions + at) as i32)
    });
    let next = pairs.iter().flat_map(|pair| pair.target.iter().copied());
    let flat = |values: Vec<i32>| {
        let count = values.len();
        Tensor::<1, Int>::from_data(TensorData::new(values, [count]), device)
    };
    let (source, source_pad) = padded(&sources, device);
    let (target, _) = padded(&shifted, device);
    let (places, next) = (flat(places.collect()), flat(next.collect()));
    TranslationBatch { source, source_pad, target, places, next }
}

pub(crate) fn longest(rows: &[&[i32]]) -> usize {
    rows.iter().map(|row| row.len()).max().unwrap_or(0)
}

/// Pads rows of tokens to the longest row. Returns the tokens and the padding mask (`true` at padding), both
/// `[rows, positions]`.
pub(crate) fn padded(rows: &[&[i32]], device: &Device) -> (Tensor<2, Int>, Tensor<2, Bool>) {
    let positions = longest(rows);
    let (mut tokens, mut pad) = (Vec::new(), Vec::new());
    for row in rows {
        let fill = positions - row.len();
        tokens.extend(row.iter().copied().chain(std::iter::repeat_n(PAD, fill)));
        pad.extend((0..positions).map(|at| at >= row.len()));
    }
    let shape = [rows.len(), positions];
    (
        Tensor::from_data(TensorData::new(tokens, shape), device),
        Tensor::from_data(TensorData::new(pad, shape), device),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translation::END;

    #[test]
    fn tokens_that_follow_are_those_of_the_sentence_wherever_it_is_filled_up() {
        let tokens = |number: usize, len: usize| {
            let tokens = (0..len).map(|at| 3 + ((number * 31 + at * 7) % 200) as i32);
            tokens.chain([END]).collect()
        };
        let pair =
            |number| Pair { source: tokens(number, 3), target: tokens(number, 3 * number % 7) };
        let pairs: Vec<Pair> = (0..5).map(pair).collect();
        let batch = batch(pairs.iter(), &Device::flex());
        let [rows, positions] = batch.target.dims();
        assert_eq!((rows, positions), (5, 7));
        let read = |tensor: Tensor<1, Int>| -> Vec<i32> {
            tensor.into_data().convert::<i32>().try_into_vec().unwrap()
        };
        let [places, next, target] =
            [batch.places, batch.next, batch.target.flatten(0, 1)].map(read);
        let mut at = 0;
        for (row, pair) in pairs.iter().enumerate() {
            for (position, &token) in pair.target.iter().enumerate() {
                assert_eq!((places[at], next[at]), ((row * positions + position) as i32, token));
                let seen = target[places[at] as usize];
                assert_eq!(seen, if position == 0 { BEGIN } else { pair.target[position - 1] });
                at += 1;
            }
        }
        assert_eq!(at, next.len());
    }
}
