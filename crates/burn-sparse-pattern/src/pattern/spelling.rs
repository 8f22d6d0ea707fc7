//! One-line text form of patterns: `shfl-bw(vector=32)`, or `shfl-bw(32)`; `balanced(block=32)`, `unstructured`.

use std::fmt;
use std::str::FromStr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{Pattern, PatternError};

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match *self {
            Pattern::Unstructured {} => write!(f, "{kind}"),
            Pattern::Balanced { block } | Pattern::BlockWise { block } => {
                write!(f, "{kind}(block={block})")
            }
            Pattern::NOfM { keep, of } => write!(f, "{kind}(keep={keep},of={of})"),
            Pattern::Hinm { vector, keep, of } => {
                write!(f, "{kind}(vector={vector},keep={keep},of={of})")
            }
            Pattern::VectorWise { vector, equal_groups }
            | Pattern::ShflBw { vector, equal_groups } => {
                write!(f, "{kind}(vector={vector}")?;
                if !equal_groups {
                    write!(f, ",equal_groups=false")?;
                }
                write!(f, ")")
            }
        }
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let fail = |reason: String| PatternError::Spelling { text: text.into(), reason };
        let (kind, arguments) = match text.trim().split_once('(') {
            None => (text.trim(), ""),
            Some((kind, rest)) => match rest.strip_suffix(')') {
                Some(arguments) => (kind.trim(), arguments),
                None => return Err(fail("expected a closing `)`".into())),
            },
        };
        let mut pattern = match Self::KINDS.iter().position(|&known| known == kind) {
            Some(at) => Self::defaults()[at],
            None => {
                let dashed = kind.replace('_', "-");
                let meant = Self::KINDS.iter().find(|&&known| known == dashed);
                let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                return Err(fail(format!("expected one of {}{meant}", Self::KINDS.join(", "))));
            }
        };
        let mut given = Vec::new();
        let sizes = pattern.sizes();
        for argument in arguments.split(',').map(str::trim).filter(|a| !a.is_empty()) {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name.trim(), value.trim()),
                // Without a name it is the next size, as in the constructors.
                None => match sizes.get(given.len()) {
                    Some(name) => (*name, argument),
                    None => {
                        return Err(fail(format!("expected `name=value`, found `{argument}`")));
                    }
                },
            };
            if given.contains(&name) {
                return Err(fail(format!("`{name}` is given twice")));
            }
            pattern.set(name, value).map_err(fail)?;
            given.push(name);
        }
        if matches!(pattern, Self::NOfM { .. } | Self::Hinm { .. })
            && !(given.contains(&"keep") && given.contains(&"of"))
        {
            return Err(fail(format!("expected both counts, as in {kind}(keep=2,of=4)")));
        }
        pattern.validate()?;
        Ok(pattern)
    }
}

impl Pattern {
    /// Returns the names of the sizes, in the order of the constructors.
    fn sizes(&self) -> &'static [&'static str] {
        match self {
            Self::Unstructured {} => &[],
            Self::Balanced { .. } | Self::BlockWise { .. } => &["block"],
            Self::NOfM { .. } => &["keep", "of"],
            Self::Hinm { .. } => &["vector", "keep", "of"],
            Self::VectorWise { .. } | Self::ShflBw { .. } => &["vector"],
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number =
            || value.parse::<usize>().map_err(|_| format!("`{name}` expects a whole number"));
        match (name, &mut *self) {
            ("block", Self::Balanced { block } | Self::BlockWise { block }) => *block = number()?,
            ("keep", Self::NOfM { keep, .. } | Self::Hinm { keep, .. }) => *keep = number()?,
            ("of", Self::NOfM { of, .. } | Self::Hinm { of, .. }) => *of = number()?,
            (
                "vector",
                Self::VectorWise { vector, .. }
                | Self::ShflBw { vector, .. }
                | Self::Hinm { vector, .. },
            ) => *vector = number()?,
            (
                "equal_groups",
                Self::VectorWise { equal_groups, .. } | Self::ShflBw { equal_groups, .. },
            ) => *equal_groups = value.parse().map_err(|_| "`equal_groups` is true or false")?,
            _ => return Err(format!("{} has no parameter `{name}`", self.kind())),
        }
        Ok(())
    }
}

/// Writes a table, `{ kind = "shfl-bw", vector = 32 }`.
impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // The derived implementation of `remote = "Self"`.
        Self::serialize(self, to)
    }
}

/// Reads a table, `{ kind = "shfl-bw", vector = 32 }`, or a string, `"shfl-bw(vector=32)"`.
impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TableOrText;

        impl<'de> Visitor<'de> for TableOrText {
            type Value = Pattern;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a pattern, as in \"shfl-bw(vector=32)\" or { kind = \"shfl-bw\", vector = 32 }")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Pattern, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Pattern, A::Error> {
                // The derived implementation of `remote = "Self"`.
                Pattern::deserialize(MapAccessDeserializer::new(map))
            }
        }

        from.deserialize_any(TableOrText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_read_back_from_its_own_spelling() {
        for text in [
            "unstructured",
            "balanced(block=16)",
            "n-of-m(keep=2,of=4)",
            "vector-wise(vector=8)",
            "shfl-bw(vector=64,equal_groups=false)",
            "hinm(vector=32,keep=1,of=4)",
            "block-wise(block=4)",
        ] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        assert_eq!("balanced".parse(), Ok(Pattern::Balanced { block: 32 }));
    }

    #[test]
    fn sizes_need_no_names_in_the_order_of_the_constructors() {
        for (text, spelled) in [
            ("balanced(16)", "balanced(block=16)"),
            ("block-wise(4)", "block-wise(block=4)"),
            ("shfl-bw( 8 )", "shfl-bw(vector=8)"),
            ("shfl-bw(8, equal_groups=false)", "shfl-bw(vector=8,equal_groups=false)"),
            ("vector-wise(32)", "vector-wise(vector=32)"),
            ("n-of-m(2,4)", "n-of-m(keep=2,of=4)"),
            ("hinm(32,2,of=4)", "hinm(vector=32,keep=2,of=4)"),
        ] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), spelled);
        }
    }

    #[test]
    fn a_pattern_is_read_from_a_string_as_from_a_table_and_written_as_a_table() {
        let table = r#"{"kind":"shfl-bw","vector":32,"equal_groups":true}"#;
        for text in [table, r#""shfl-bw(vector=32)""#, r#"{"kind":"shfl-bw"}"#] {
            let pattern: Pattern = serde_json::from_str(text).unwrap();
            assert_eq!(pattern, Pattern::shfl_bw(32));
            assert_eq!(serde_json::to_string(&pattern).unwrap(), table);
        }
        let error = serde_json::from_str::<Pattern>(r#""shfl-bw(vector=1)""#).unwrap_err();
        assert!(error.to_string().contains("`vector` is 1"), "{error}");
    }

    #[test]
    fn a_misspelt_pattern_is_told_the_right_names() {
        for (text, hint) in [
            ("shflbw", "expected one of unstructured, balanced"),
            ("shfl_bw(32)", "did you mean shfl-bw?"),
            ("balanced(16,2)", "expected `name=value`, found `2`"),
            ("unstructured(32)", "expected `name=value`, found `32`"),
            ("balanced(16,block=8)", "`block` is given twice"),
            ("shfl-bw(vector=8,16)", "expected `name=value`, found `16`"),
            ("n-of-m(2)", "expected both counts"),
            ("balanced(block=x)", "`block` expects a whole number"),
            ("balanced(vector=3)", "balanced has no parameter `vector`"),
            ("balanced(block=32", "expected a closing `)`"),
            ("n-of-m(keep=2)", "expected both counts"),
            ("balanced(block=0)", "`block` is 0"),
            ("shfl-bw(vector=1000)", "`vector` is 1000"),
        ] {
            let error = text.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(hint), "{error}");
        }
    }
}
