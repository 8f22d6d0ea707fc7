use super::{ConfigError, OptimizerState, PruneConfig};

/// Pruning rules for a model; if several match a parameter, the last one applies.
///
/// ```
/// use burn_sparse::pattern::Pattern;
/// use burn_sparse::prune::{PruneConfig, Pruning};
///
/// let pruning = Pruning::new([
///     PruneConfig::new(Pattern::shfl_bw(32), 0.75),
///     PruneConfig::new(Pattern::balanced(32), 0.5).with_params(["head.*"]),
/// ])
/// .with_seed(7);
/// # assert_eq!(pruning.configs().len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Pruning {
    configs: Vec<PruneConfig>,
    seed: u64,
    optimizer_state: OptimizerState,
}

impl Pruning {
    /// Applies these rules, with seed 0.
    pub fn new(configs: impl IntoIterator<Item = PruneConfig>) -> Self {
        Self { configs: configs.into_iter().collect(), ..Self::default() }
    }

    /// Seeds the row order search and random regrowth.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the treatment of the optimizer's state for weights that stop or start learning.
    #[must_use]
    pub fn with_optimizer_state(mut self, policy: OptimizerState) -> Self {
        self.optimizer_state = policy;
        self
    }

    /// Returns the rules.
    pub fn configs(&self) -> &[PruneConfig] {
        &self.configs
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the treatment of the optimizer's state.
    pub fn optimizer_state(&self) -> OptimizerState {
        self.optimizer_state
    }

    /// Checks everything that can be checked without a model.
    ///
    /// # Errors
    /// Returns an error that names the first key that is wrong, and what was expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.configs.iter().enumerate().try_for_each(|(index, config)| config.validate(index))
    }
}

impl From<PruneConfig> for Pruning {
    fn from(config: PruneConfig) -> Self {
        Self::new([config])
    }
}

impl From<&PruneConfig> for Pruning {
    fn from(config: &PruneConfig) -> Self {
        config.clone().into()
    }
}

impl From<&Self> for Pruning {
    fn from(pruning: &Self) -> Self {
        pruning.clone()
    }
}
