use serde::{Deserialize, Serialize};

/// Distillation from the dense model: from its outputs (Hinton et al., "Distilling the knowledge in a neural network", 2015,
/// section 2), and from those of its layers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distill {
    /// Weight of the teacher in the loss, above 0 and up to 1; the labels get the rest.
    pub weight: f64,
    /// Temperature that divides the logits of both models. Embeddings have none.
    #[serde(default = "two")]
    pub temperature: f64,
    /// Weight of SquareHead, which is added to the loss: the mean over layers of `MSE(student, teacher) / MSE(teacher, 0)`
    /// of their outputs (Kurtic et al., "Sparse fine-tuning for inference acceleration of large language models", 2023,
    /// section 3). For pretrained models.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub layers: f64,
}

impl Distill {
    pub(super) fn validate(&self) -> Result<(), String> {
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return Err(format!("weight is {}, expected a share above 0 and up to 1", self.weight));
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return Err(format!("temperature is {}, expected a positive number", self.temperature));
        }
        if !(self.layers >= 0.0 && self.layers.is_finite()) {
            return Err(format!("layers is {}, expected 0 or a positive number", self.layers));
        }
        Ok(())
    }
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn two() -> f64 {
    2.0
}
