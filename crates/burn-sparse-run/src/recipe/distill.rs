use serde::{Deserialize, Serialize};

/// Distillation from the dense model's outputs (Hinton et al., "Distilling the knowledge in a neural network", 2015,
/// section 2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distill {
    /// Weight of the teacher in the loss, above 0 and up to 1; the labels have the rest.
    pub weight: f64,
    /// Temperature that divides the logits of both models.
    #[serde(default = "two")]
    pub temperature: f64,
}

impl Distill {
    pub(super) fn validate(&self) -> Result<(), String> {
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return Err(format!("weight is {}, expected a share above 0 and up to 1", self.weight));
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return Err(format!("temperature is {}, expected a positive number", self.temperature));
        }
        Ok(())
    }
}

fn two() -> f64 {
    2.0
}
