use burn::tensor::{Bool, Device, Int, Tensor, TensorData};

/// Tokens of several texts, with padding at their ends.
#[derive(Debug, Clone)]
pub struct TokenBatch {
    /// Tokens, `[texts, positions]`.
    pub ids: Tensor<2, Int>,
    /// `true` for padding, `[texts, positions]`; `None` if there is none.
    pub padding: Option<Tensor<2, Bool>>,
}

impl TokenBatch {
    /// Pads all texts to the length of the longest.
    pub fn new(texts: &[&[u32]], device: &Device) -> Self {
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        let (mut ids, mut padding) = (Vec::new(), Vec::new());
        for text in texts {
            let missing = longest - text.len();
            ids.extend(text.iter().map(|&id| id as i32).chain(std::iter::repeat_n(0, missing)));
            padding.extend((0..longest).map(|at| at >= text.len()));
        }
        let shape = [texts.len(), longest];
        let any = padding.contains(&true);
        Self {
            ids: Tensor::from_data(TensorData::new(ids, shape), device),
            padding: any.then(|| Tensor::from_data(TensorData::new(padding, shape), device)),
        }
    }
}
