use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// Whether a dropped weight may come back while the ramp rises: `"never"`, `"straight-through"`,
/// `{ fraction, anneal, score }`, or `{ partitions, rounds }`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Regrow {
    /// Never: its gradient is masked and it scores nothing.
    Never,
    /// The gradient passes straight through the mask, so dropped weights go on learning and compete
    /// at the next update.
    #[default]
    StraightThrough,
    /// Every update drops a share of what is kept and lets as much grow elsewhere, at zero. Between
    /// updates only kept weights learn.
    Grow(Growth),
    /// The weights of the table are cut into partitions; all are at the target from the start on but one,
    /// which is dense, learns, and is pruned when the next one's turn comes.
    GrowAndPrune(GrowAndPrune),
}

/// Scheduled grow-and-prune (Ma et al., "Effective model sparsification by scheduled grow-and-prune
/// methods", ICLR 2022, algorithm 1): partitions of layers are dense in turn, so that every weight learns
/// again while most of the model stays sparse. Turns are equally long: `every` and `curve` say nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GrowAndPrune {
    /// Parts of about as many weight tensors each, in the model's order.
    pub partitions: usize,
    /// How often each is dense between `start` and `end`; once if a recipe does not say.
    pub rounds: usize,
}

/// How much moves at an update, and to where.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Growth {
    /// The share of kept weights that the first update moves, above 0 and up to a half; 0.3 if a recipe does
    /// not say.
    pub fraction: f64,
    /// How that share falls towards the end of the ramp.
    pub anneal: Anneal,
    /// What ranks the weights that may grow.
    pub score: GrowthScore,
}

/// How the share that moves falls from the start of a ramp to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anneal {
    /// Along half a cosine, to nothing.
    #[default]
    Cosine,
    /// It does not.
    Constant,
}

/// What ranks the weights that may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrowthScore {
    /// The magnitude of the gradient of the batch before the update (Evci et al., "RigL", 2020).
    #[default]
    Gradient,
    /// Chance (Mocanu et al., "SET", 2018).
    Random,
}

impl Regrow {
    /// Whether dropped weights are zero and learn nothing.
    pub(crate) fn is_hard(self) -> bool {
        self != Self::StraightThrough
    }

    /// Whether updates look at gradients.
    pub(crate) fn needs_gradient(self) -> bool {
        matches!(self, Self::Grow(Growth { score: GrowthScore::Gradient, .. }))
    }
}

impl Growth {
    /// The share that moves at `progress`, 0 to 1, of the ramp.
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
    /// Turns between start and end.
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
        /// The keys of both methods.
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
                         are two methods: take one of them out",
                    )),
                }
            }
        }

        from.deserialize_any(Spelled)
    }
}
