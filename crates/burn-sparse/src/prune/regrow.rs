use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// Rule by which dropped weights regrow during the ramp.
///
/// A recipe spells it `"never"`, `"straight-through"`, `{ fraction, anneal, score }` (drop-and-grow) or
/// `{ partitions, rounds }` (grow-and-prune).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Regrow {
    /// Gradual pruning (Zhu and Gupta, "To prune, or not to prune", 2017): dropped weights stay zero. Their gradient is masked,
    /// and their score is zero.
    #[default]
    Never,
    /// Straight-through estimator: dropped weights keep learning and compete at the next update. They drift unless
    /// [`PruneConfig::with_decay`](super::PruneConfig::with_decay) attracts them to zero.
    StraightThrough,
    /// Drop-and-grow (RigL, SET): every update drops a share of the kept weights and grows as many others from zero.
    /// Only kept weights learn between updates.
    Grow(Growth),
    /// Scheduled grow-and-prune: weight tensors are split into partitions. One partition at a time is dense and learns;
    /// all others are at the target sparsity.
    GrowAndPrune(GrowAndPrune),
}

/// Scheduled grow-and-prune (Ma et al., "Effective model sparsification by scheduled grow-and-prune methods", ICLR 2022,
/// algorithm 1): partitions of layers are dense in turn, so that every weight learns again while most of the model stays
/// sparse. Turns are equally long: the interval and the curve of the ramp have no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GrowAndPrune {
    /// Number of partitions, each with about the same number of weight tensors, in the model's order.
    pub partitions: usize,
    /// Number of times that each partition is dense between the start and the end of the ramp (1 in a recipe by default).
    pub rounds: usize,
}

/// Drop-and-grow: share of weights that move at an update, and the score of those that grow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// Share of kept weights that the first update moves, above 0 and up to 0.5 (0.3 in a recipe by default).
    pub fraction: f64,
    /// Annealing of that share towards the end of the ramp.
    pub anneal: Anneal,
    /// Score that ranks the weights that may grow.
    pub score: GrowthScore,
}

/// Annealing of the share that moves, over the ramp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anneal {
    /// Half a cosine, to zero.
    #[default]
    Cosine,
    /// No annealing.
    Constant,
}

/// Score that ranks the weights that may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthScore {
    /// Magnitude of the gradient of the batch before the update (Evci et al., "RigL", 2020).
    #[default]
    Gradient,
    /// Random (Mocanu et al., "SET", 2018).
    Random,
}

impl Regrow {
    /// Returns `true` if dropped weights are zero and do not learn.
    pub(crate) fn is_hard(self) -> bool {
        self != Self::StraightThrough
    }

    /// Returns `true` if updates need gradients.
    pub(crate) fn needs_gradient(self) -> bool {
        matches!(self, Self::Grow(Growth { score: GrowthScore::Gradient, .. }))
    }
}

impl Growth {
    /// Returns the share that moves at `progress` (0 to 1) of the ramp.
    pub fn share(&self, progress: f64) -> f64 {
        match self.anneal {
            Anneal::Constant => self.fraction,
            Anneal::Cosine => {
                self.fraction * (1.0 + (std::f64::consts::PI * progress.clamp(0.0, 1.0)).cos())
                    / 2.0
            }
        }
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        if self.fraction > 0.0 && self.fraction <= 0.5 {
            return Ok(());
        }
        Err(format!("fraction is {}, expected a share above 0 and up to 0.5", self.fraction))
    }
}

const MOST_TURNS: usize = 1 << 20;

impl GrowAndPrune {
    /// Returns the number of turns between start and end.
    pub(crate) fn turns(&self) -> usize {
        self.partitions.saturating_mul(self.rounds)
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        if self.partitions > 0 && self.rounds > 0 && self.turns() <= MOST_TURNS {
            return Ok(());
        }
        Err(format!(
            "has {} partitions and {} rounds, expected at least one of each and {MOST_TURNS} turns at most",
            self.partitions, self.rounds
        ))
    }
}

impl Serialize for Regrow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Never => to.serialize_str("never"),
            Self::StraightThrough => to.serialize_str("straight-through"),
            Self::Grow(growth) => growth.serialize(to),
            Self::GrowAndPrune(turns) => turns.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Regrow {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        /// Keys of both methods.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            fraction: Option<f64>,
            anneal: Option<Anneal>,
            score: Option<GrowthScore>,
            partitions: Option<usize>,
            rounds: Option<usize>,
        }

        struct Spelled;

        impl<'de> Visitor<'de> for Spelled {
            type Value = Regrow;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(
                    "`never`, `straight-through`, { fraction, anneal, score } or { partitions, rounds }",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Regrow, E> {
                match text {
                    "never" => Ok(Regrow::Never),
                    "straight-through" => Ok(Regrow::StraightThrough),
                    other => Err(E::unknown_variant(other, &["never", "straight-through"])),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Regrow, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let Table { fraction, anneal, score, partitions, rounds } = table;
                let growth = fraction.is_some() || anneal.is_some() || score.is_some();
                match (partitions, growth) {
                    (Some(partitions), false) => {
                        let rounds = rounds.unwrap_or(1);
                        Ok(Regrow::GrowAndPrune(GrowAndPrune { partitions, rounds }))
                    }
                    (None, _) if rounds.is_none() => Ok(Regrow::Grow(Growth {
                        fraction: fraction.unwrap_or(0.3),
                        anneal: anneal.unwrap_or_default(),
                        score: score.unwrap_or_default(),
                    })),
                    (None, _) => Err(Error::missing_field("partitions")),
                    (Some(_), true) => Err(Error::custom(
                        "`partitions` (grow-and-prune) and `fraction`, `anneal`, `score` (drop and grow) \
                         are different methods: remove one of them",
                    )),
                }
            }
        }

        from.deserialize_any(Spelled)
    }
}
