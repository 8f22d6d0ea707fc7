use burn_sparse_models::huggingface::{CausalLm, PretrainedError};

use crate::Metric;

/// Windows of a text that a language model is measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Number of windows, evenly spaced: window `i` of `n` begins at token `i · (tokens - length) / (n - 1)`; a single
    /// window begins at the first token.
    pub count: usize,
    /// Number of tokens of a window. Each begins without context, and all of its tokens after the first are predicted.
    pub length: usize,
}

impl Windows {
    /// Returns the position of a window's first token, in a text with `tokens` tokens.
    pub(crate) fn start(self, window: usize, tokens: usize) -> usize {
        window * (tokens - self.length) / (self.count - 1).max(1)
    }
}

/// Measures the perplexity of a language model on windows of a text's tokens: `exp` of the mean of `-ln p` over all predicted
/// tokens. `on_window` is called with the number of windows done.
///
/// # Errors
/// Returns an error when the text is shorter than a window, or a window longer than the model's
/// context.
pub fn perplexity(
    model: &CausalLm,
    tokens: &[u32],
    windows: Windows,
    mut on_window: impl FnMut(usize),
) -> Result<Metric, PretrainedError> {
    let Windows { count, length } = windows;
    if count == 0 || length < 2 || tokens.len() < length {
        return Err(PretrainedError::Input(format!(
            "the text has {} tokens; expected at least one window of two tokens or more, found {count} of {length}",
            tokens.len()
        )));
    }
    let (mut sum, mut predicted) = (0.0, 0);
    for window in 0..count {
        let from = windows.start(window, tokens.len());
        sum += model.negative_log_likelihood(&tokens[from..from + length])?;
        predicted += length - 1;
        on_window(window + 1);
    }
    Ok(Metric::new("perplexity", (sum / predicted as f64).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_reach_from_the_first_token_to_the_last() {
        let windows = Windows { count: 4, length: 10 };
        let starts: Vec<usize> = (0..4).map(|window| windows.start(window, 100)).collect();
        assert_eq!(starts, [0, 30, 60, 90]);
        assert_eq!(Windows { count: 1, length: 10 }.start(0, 100), 0);
    }
}
