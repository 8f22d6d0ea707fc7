use serde::{Deserialize, Serialize};

/// Fine-tuning towards the outputs of the dense model (Hinton et al., "Distilling the knowledge in a neural
/// network", 2015, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distill {
    /// The teacher's share of the loss, above 0 and up to 1; the labels have the rest.
    pub weight: f64,
    /// What both models' logits are divided by: the higher, the more the teacher's second choices count.
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
