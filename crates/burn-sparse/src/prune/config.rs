use burn_sparse_pattern::{Distribution, Pattern};
use serde::{Deserialize, Serialize};

use super::{ConfigError, Curve, Moment, Ramp, Regroup, Regrow, Score};

/// One pruning rule: which parameters, which pattern, what sparsity, and when.
///
/// A recipe's `[[prune]]` table is the same struct, read through serde.
///
/// ```
/// use burn_sparse::pattern::Pattern;
/// use burn_sparse::prune::Moment::Steps;
/// use burn_sparse::prune::{PruneConfig, Ramp};
///
/// let pruning = PruneConfig::new(Pattern::shfl_bw(32), 0.75)
///     .with_except(["head.*"])
///     .with_ramp(Ramp::cubic(Steps(200)).with_every(Steps(20)));
/// assert_eq!(pruning.target(), 0.75);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PruneConfig {
    #[serde(default = "prunable", with = "one_or_many")]
    params: Vec<String>,
    #[serde(default, with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
    pattern: Pattern,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sparsity: Option<f64>,
    #[serde(default)]
    distribution: Distribution,
    #[serde(default = "default_cap")]
    cap: f64,
    #[serde(default)]
    score: Score,
    #[serde(default = "at_once")]
    start: Moment,
    end: Moment,
    #[serde(default = "fifty_steps")]
    every: Moment,
    #[serde(default)]
    curve: Curve,
    #[serde(default)]
    regrow: Regrow,
    #[serde(default, skip_serializing_if = "is_zero")]
    decay: f64,
    #[serde(default, skip_serializing_if = "is_zero")]
    attract: f64,
    #[serde(default)]
    regroup: Regroup,
}

fn default_cap() -> f64 {
    0.99
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn prunable() -> Vec<String> {
    vec!["prunable".into()]
}

fn at_once() -> Moment {
    Moment::Steps(0)
}

fn fifty_steps() -> Moment {
    Moment::Steps(50)
}

impl PruneConfig {
    /// Prunes all linear and convolution weights to `sparsity` (the share of zeros) under `pattern`, in one shot before
    /// the first step; [`Self::with_ramp`] prunes gradually. `n-of-m` fixes its own sparsity: see [`Self::n_of_m`].
    pub fn new(pattern: Pattern, sparsity: f64) -> Self {
        Self {
            params: prunable(),
            except: Vec::new(),
            pattern,
            sparsity: pattern.fixed_sparsity().is_none().then_some(sparsity),
            distribution: Distribution::default(),
            cap: default_cap(),
            score: Score::default(),
            start: at_once(),
            end: at_once(),
            every: fifty_steps(),
            curve: Curve::default(),
            regrow: Regrow::default(),
            decay: 0.0,
            attract: 0.0,
            regroup: Regroup::default(),
        }
    }

    /// Keeps `keep` of every `of` consecutive weights of a row.
    pub fn n_of_m(keep: usize, of: usize) -> Self {
        Self::new(Pattern::NOfM { keep, of }, 0.0)
    }

    /// Selects the parameters to prune: `"prunable"` (all linear and convolution weights), globs over parameter paths, or
    /// regular expressions as `"re:…"`. If several configurations match a parameter, the last one applies.
    #[must_use]
    pub fn with_params<S: Into<String>>(mut self, params: impl IntoIterator<Item = S>) -> Self {
        self.params = params.into_iter().map(Into::into).collect();
        self
    }

    /// Excludes parameters that [`Self::with_params`] selects, spelled the same way.
    #[must_use]
    pub fn with_except<S: Into<String>>(mut self, except: impl IntoIterator<Item = S>) -> Self {
        self.except = except.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the pattern and the target; a pattern that fixes its own sparsity ignores `sparsity`.
    #[must_use]
    pub fn with_pattern(mut self, pattern: Pattern, sparsity: f64) -> Self {
        self.sparsity = pattern.fixed_sparsity().is_none().then_some(sparsity);
        self.pattern = pattern;
        self
    }

    /// Sets how the sparsity is distributed over the selected weights.
    #[must_use]
    pub fn with_distribution(mut self, distribution: Distribution) -> Self {
        self.distribution = distribution;
        self
    }

    /// Sets the highest sparsity that [`Distribution::Global`] gives a single weight (0.99 by default).
    #[must_use]
    pub fn with_cap(mut self, cap: f64) -> Self {
        self.cap = cap;
        self
    }

    /// Sets the score that ranks weights.
    #[must_use]
    pub fn with_score(mut self, score: Score) -> Self {
        self.score = score;
        self
    }

    /// Raises the sparsity gradually.
    #[must_use]
    pub fn with_ramp(mut self, ramp: Ramp) -> Self {
        Ramp { start: self.start, end: self.end, every: self.every, curve: self.curve } = ramp;
        self
    }

    /// Sets whether a dropped weight may come back before the ramp ends ([`Regrow::Never`] by default).
    #[must_use]
    pub fn with_regrow(mut self, regrow: Regrow) -> Self {
        self.regrow = regrow;
        self
    }

    /// Decays dropped weights towards zero while they keep learning: adds `decay · weight` to the gradient of every
    /// dropped weight. Needs [`Regrow::StraightThrough`] (Zhou et al., "SR-STE", 2021, equation 9).
    ///
    /// The paper's 2e-4 is for SGD. Adam divides by the magnitude of the gradient, so that dropped weights drift as fast
    /// as kept ones and masks oscillate (Lu et al., "STEP", 2023); it needs about 1e-2.
    #[must_use]
    pub fn with_decay(mut self, decay: f64) -> Self {
        self.decay = decay;
        self
    }

    /// Attracts the rows of a group to common columns during the ramp: adds `attract` times the gradient of the group
    /// lasso over the vectors of the current groups (Yuan and Lin, 2006). Needs [`Regrow::StraightThrough`] and a
    /// pattern with vectors.
    #[must_use]
    pub fn with_attract(mut self, attract: f64) -> Self {
        self.attract = attract;
        self
    }

    /// Sets when the row order of `shfl-bw` and `hinm` is searched again.
    #[must_use]
    pub fn with_regroup(mut self, regroup: Regroup) -> Self {
        self.regroup = regroup;
        self
    }

    /// Returns the selectors of the parameters to prune.
    pub fn params(&self) -> &[String] {
        &self.params
    }

    /// Returns the selectors of the parameters to leave out.
    pub fn except(&self) -> &[String] {
        &self.except
    }

    /// Returns the pattern.
    pub fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// Returns the share of zeros at the end of the ramp.
    pub fn target(&self) -> f64 {
        self.pattern.fixed_sparsity().or(self.sparsity).unwrap_or(0.0)
    }

    /// Returns the distribution over the selected weights.
    pub fn distribution(&self) -> Distribution {
        self.distribution
    }

    /// Returns the highest sparsity that [`Distribution::Global`] gives a single weight.
    pub fn cap(&self) -> f64 {
        self.cap
    }

    /// Returns the score that ranks weights.
    pub fn score(&self) -> Score {
        self.score
    }

    /// Returns whether a dropped weight may come back.
    pub fn regrow(&self) -> Regrow {
        self.regrow
    }

    /// Returns the strength of the decay of dropped weights.
    pub fn decay(&self) -> f64 {
        self.decay
    }

    /// Returns the strength of the group lasso.
    pub fn attract(&self) -> f64 {
        self.attract
    }

    /// Returns when the row order is searched again.
    pub fn regroup(&self) -> Regroup {
        self.regroup
    }

    /// Returns the ramp.
    pub fn ramp(&self) -> Ramp {
        let Self { start, end, every, ref curve, .. } = *self;
        Ramp { start, end, every, curve: curve.clone() }
    }

    /// Checks everything that can be checked without a model. `index` is the position among the rules.
    pub(super) fn validate(&self, index: usize) -> Result<(), ConfigError> {
        let key = |name: &str| format!("prune[{index}].{name}");
        let fail = |name: &str, reason: String| Err(ConfigError::value(key(name), reason));
        self.pattern
            .validate()
            .map_err(|source| ConfigError::Pattern { key: key("pattern"), source })?;
        self.validate_sparsity(&fail)?;
        if self.params.is_empty() {
            return fail("params", "is empty, expected \"prunable\" or globs".into());
        }
        for (name, moment) in [("start", self.start), ("end", self.end), ("every", self.every)] {
            moment.validate().map_err(|reason| ConfigError::value(key(name), reason))?;
        }
        if self.every.is_zero() {
            return fail("every", "is 0, expected at least \"1 steps\"".into());
        }
        self.validate_penalties(&fail)?;
        let regrow = |reason| ConfigError::value(key("regrow"), reason);
        match &self.regrow {
            Regrow::Grow(growth) => growth.validate().map_err(regrow)?,
            Regrow::GrowAndPrune(turns) => {
                turns.validate().map_err(regrow)?;
                if self.curve != Curve::default() {
                    let reason = "has no effect with grow-and-prune, whose weights are dense or at the target: \
                                  remove it";
                    return fail("curve", reason.into());
                }
                if self.distribution == Distribution::Global {
                    let reason = "is \"global\", but grow-and-prune has layers at two sparsities at once: one \
                                  threshold cannot set both";
                    return fail("distribution", reason.into());
                }
            }
            Regrow::Never | Regrow::StraightThrough => {}
        }
        self.curve.validate().map_err(|reason| ConfigError::value(key("curve"), reason))
    }

    fn validate_sparsity(
        &self,
        fail: &impl Fn(&str, String) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        let fixed = self.pattern.fixed_sparsity();
        match (self.sparsity, fixed) {
            (None, None) => return fail("sparsity", "is missing".into()),
            (Some(given), Some(fixed)) if (given - fixed).abs() > 1e-9 => {
                let reason = format!("is {given}, but {} fixes {fixed}: remove it", self.pattern);
                return fail("sparsity", reason);
            }
            (Some(given), _) if !(given > 0.0 && given < 1.0) => {
                let reason = format!("is {given}, expected a share between 0 and 1 (0.75 is 75 %)");
                return fail("sparsity", reason);
            }
            _ => {}
        }
        if self.distribution != Distribution::Uniform && fixed.is_some() {
            let reason = format!("expected \"uniform\": {} fixes every sparsity", self.pattern);
            return fail("distribution", reason);
        }
        let global = self.distribution == Distribution::Global;
        if global && !(self.cap < 1.0 && self.cap >= self.target()) {
            let reason = format!("is {}, expected at least the sparsity, and below 1", self.cap);
            return fail("cap", reason);
        }
        Ok(())
    }

    fn validate_penalties(
        &self,
        fail: &impl Fn(&str, String) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        for (name, strength) in [("decay", self.decay), ("attract", self.attract)] {
            if !(strength >= 0.0 && strength.is_finite()) {
                return fail(name, format!("is {strength}, expected 0 or a positive number"));
            }
            if strength > 0.0 && self.regrow != Regrow::StraightThrough {
                let reason = "needs regrow = \"straight-through\": otherwise dropped weights are already zero";
                return fail(name, reason.into());
            }
        }
        if self.attract > 0.0 && self.pattern.vector().is_none() {
            let reason = format!("acts on vectors, and {} has none", self.pattern);
            return fail("attract", reason);
        }
        Ok(())
    }
}

/// Reads `"x"` and `["x", "y"]` as lists.
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
