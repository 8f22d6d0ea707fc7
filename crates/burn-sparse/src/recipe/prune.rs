use burn_sparse_pattern::{Distribution, Pattern};
use serde::{Deserialize, Serialize};

use super::{Curve, Moment, RecipeError, Regrow};

/// One `[[prune]]` table: which parameters, which pattern, how far, when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PruneTable {
    /// `"prunable"`, globs, or `"re:…"`; the last matching table wins.
    #[serde(default = "prunable", with = "one_or_many")]
    pub params: Vec<String>,
    /// What is left out of `params`, spelled alike.
    #[serde(default, with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// The allowed shapes of the mask.
    pub pattern: Pattern,
    /// The share of zeros at the end of the ramp; `n-of-m` brings its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparsity: Option<f64>,
    /// How the sparsity is spread over the weights of this table: `"uniform"`, `"erdos-renyi"`,
    /// `"erdos-renyi-kernel"` or `"global"`.
    #[serde(default)]
    pub distribution: Distribution,
    /// The highest sparsity that `"global"` gives a weight.
    #[serde(default = "nearly_all")]
    pub cap: f64,
    /// What ranks weights.
    #[serde(default)]
    pub score: Score,
    /// When the ramp starts, counted from the start of pruning.
    #[serde(default = "at_once")]
    pub start: Moment,
    /// When the ramp ends: the last update, at exactly the target.
    pub end: Moment,
    /// The stretch between two updates, counted from `start`.
    #[serde(default = "fifty_steps")]
    pub every: Moment,
    /// How sparsity rises.
    #[serde(default)]
    pub curve: Curve,
    /// Whether a dropped weight may come back while the ramp rises.
    #[serde(default)]
    pub regrow: Regrow,
    /// Draws weights that are dropped towards zero while they go on learning: this times the weight is
    /// added to its gradient, with `"straight-through"` (Zhou et al., "SR-STE", 2021, equation 9).
    ///
    /// The paper's 2e-4 is for SGD. Adam divides the sum by the size of the gradient, so that weights that are
    /// dropped drift as far as those that are kept and masks exchange one for the other (Lu et al., "STEP", 2023): it
    /// wants about 1e-2.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decay: f64,
    /// Draws the rows of a group to common columns while the ramp rises: this times the gradient of the group
    /// lasso over the vectors of the current groups (Yuan and Lin, 2006) is added to the gradient, with
    /// `"straight-through"` and patterns that have vectors.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attract: f64,
    /// When Shfl-BW's row order is searched again.
    #[serde(default)]
    pub regroup: Regroup,
}

/// What ranks weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// `|w|`.
    #[default]
    Magnitude,
    /// `|w · g|`, the first-order Taylor estimate of what the loss would change (Molchanov et al.,
    /// 2017), with the gradient of the batch before the update.
    Taylor,
}

/// When Shfl-BW's row order is searched again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Regroup {
    /// At every mask update, from the last order.
    #[default]
    #[serde(rename = "every update")]
    EveryUpdate,
    /// Only at the first update; later ones keep its groups.
    #[serde(rename = "first update")]
    FirstUpdate,
}

fn nearly_all() -> f64 {
    0.99
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn prunable() -> Vec<String> {
    vec!["prunable".into()]
}

fn at_once() -> Moment {
    Moment::steps(0)
}

fn fifty_steps() -> Moment {
    Moment::steps(50)
}

impl PruneTable {
    /// The share of zeros at the end of the ramp.
    pub fn target(&self) -> f64 {
        self.pattern.fixed_sparsity().or(self.sparsity).unwrap_or(0.0)
    }

    /// The table with another pattern and target; a pattern that fixes its sparsity keeps its own.
    #[must_use]
    pub fn under(self, pattern: Pattern, target: f64) -> Self {
        let sparsity = pattern.fixed_sparsity().is_none().then_some(target);
        Self { pattern, sparsity, ..self }
    }

    /// Refuses what no model could make right.
    pub(crate) fn validate(&self, index: usize) -> Result<(), RecipeError> {
        let key = |name: &str| format!("prune[{index}].{name}");
        let pattern = |source| RecipeError::Pattern { key: key("pattern"), source };
        self.pattern.validate().map_err(pattern)?;
        match (self.sparsity, self.pattern.fixed_sparsity()) {
            (None, None) => return Err(RecipeError::value(key("sparsity"), "missing")),
            (Some(given), Some(fixed)) if (given - fixed).abs() > 1e-9 => {
                let reason =
                    format!("is {given}, but {} fixes {fixed}; leave it out", self.pattern);
                return Err(RecipeError::value(key("sparsity"), reason));
            }
            (Some(given), _) if !(given > 0.0 && given < 1.0) => {
                let reason = format!("is {given}, expected a share between 0 and 1 (0.75 is 75 %)");
                return Err(RecipeError::value(key("sparsity"), reason));
            }
            _ => {}
        }
        if self.distribution != Distribution::Uniform && self.pattern.fixed_sparsity().is_some() {
            let reason = format!("expected \"uniform\": {} fixes every sparsity", self.pattern);
            return Err(RecipeError::value(key("distribution"), reason));
        }
        let global = self.distribution == Distribution::Global;
        if global && !(self.cap < 1.0 && self.cap >= self.target()) {
            let reason = format!("is {}, expected the sparsity or more, and below 1", self.cap);
            return Err(RecipeError::value(key("cap"), reason));
        }
        if self.params.is_empty() {
            return Err(RecipeError::value(
                key("params"),
                "is empty, expected \"prunable\" or globs",
            ));
        }
        if self.every.value == 0.0 {
            return Err(RecipeError::value(key("every"), "is 0, expected at least \"1 steps\""));
        }
        for (name, strength) in [("decay", self.decay), ("attract", self.attract)] {
            if !(strength >= 0.0 && strength.is_finite()) {
                let reason = format!("is {strength}, expected 0 or a positive number");
                return Err(RecipeError::value(key(name), reason));
            }
            if strength > 0.0 && self.regrow != Regrow::StraightThrough {
                let reason = "needs regrow = \"straight-through\": otherwise dropped weights are zero \
                              already";
                return Err(RecipeError::value(key(name), reason));
            }
        }
        if self.attract > 0.0 && self.pattern.vector().is_none() {
            let reason = format!("draws vectors together, and {} has none", self.pattern);
            return Err(RecipeError::value(key("attract"), reason));
        }
        if let Regrow::Grow(growth) = &self.regrow {
            growth.validate().map_err(|reason| RecipeError::value(key("regrow"), reason))?;
        }
        if let Regrow::GrowAndPrune(turns) = &self.regrow {
            turns.validate().map_err(|reason| RecipeError::value(key("regrow"), reason))?;
            if self.curve != Curve::default() {
                let reason = "is of no use to grow-and-prune, whose weights are dense or at the target: take \
                              it out";
                return Err(RecipeError::value(key("curve"), reason));
            }
            if global {
                let reason = "is \"global\", but grow-and-prune has layers at two sparsities at once: one \
                              threshold cannot set both";
                return Err(RecipeError::value(key("distribution"), reason));
            }
        }
        self.curve.validate().map_err(|reason| RecipeError::value(key("curve"), reason))
    }
}

/// `"x"` and `["x", "y"]` are both lists.
mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        Ok(match OneOrMany::deserialize(from)? {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        })
    }

    pub(super) fn serialize<S: Serializer>(texts: &[String], to: S) -> Result<S::Ok, S::Error> {
        match texts {
            [one] => one.serialize(to),
            many => many.serialize(to),
        }
    }
}
