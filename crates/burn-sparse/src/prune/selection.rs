use burn_sparse_pattern::format::View;
use globset::{Glob, GlobMatcher};
use regex::Regex;

use super::{PlanError, PruneConfig};
use crate::params::{Parameter, listed, view_of};

/// Compiled selector.
enum Selector {
    Prunable,
    Glob(GlobMatcher),
    Regex(Regex),
}

impl Selector {
    fn new(text: &str) -> Result<Self, String> {
        if text == "prunable" {
            return Ok(Self::Prunable);
        }
        if let Some(pattern) = text.strip_prefix("re:") {
            // Anchored at both ends, as globs are.
            let regex =
                Regex::new(&format!("^(?:{pattern})$")).map_err(|error| error.to_string())?;
            return Ok(Self::Regex(regex));
        }
        let glob = Glob::new(text).map_err(|error| error.to_string())?;
        Ok(Self::Glob(glob.compile_matcher()))
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Prunable => true,
            Self::Glob(glob) => glob.is_match(name),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}

/// Decision about one parameter.
pub(super) enum Verdict {
    /// Index of the rule that applies, and of those that it overrides.
    Pruned { table: usize, shadowed: Vec<usize> },
    /// No rule selects it, though one could.
    Unselected,
    /// Excepted, or not prunable; says which.
    Unpruned(String),
}

/// Applies all rules to all parameters. A selector that matches nothing is an error: it is usually a misspelling.
pub(super) fn select(
    configs: &[PruneConfig],
    parameters: &[Parameter],
) -> Result<Vec<Verdict>, PlanError> {
    let mut chosen: Vec<Vec<usize>> = vec![Vec::new(); parameters.len()];
    let mut excepted: Vec<Option<String>> = vec![None; parameters.len()];
    for (index, table) in configs.iter().enumerate() {
        let params = compile(table.params(), index, "params")?;
        let except = compile(table.except(), index, "except")?;
        refuse_unmatched(table, index, &params, &except, parameters)?;
        for (at, parameter) in parameters.iter().enumerate() {
            if view(parameter).is_none() || !any(&params, &parameter.name) {
                continue;
            }
            match table.except().iter().zip(&except).find(|(_, s)| s.matches(&parameter.name)) {
                Some((text, _)) => excepted[at] = Some(format!("excepted by `{text}`")),
                None => chosen[at].push(index),
            }
        }
    }
    let verdicts = parameters.iter().zip(chosen).zip(excepted);
    Ok(verdicts
        .map(|((parameter, mut tables), excepted)| match (tables.pop(), excepted) {
            (Some(table), _) => Verdict::Pruned { table, shadowed: tables },
            (None, Some(reason)) => Verdict::Unpruned(reason),
            (None, None) => match view(parameter) {
                Some(_) => Verdict::Unselected,
                None if parameter.shape.len() < 2 => Verdict::Unpruned("not a matrix".into()),
                None => Verdict::Unpruned(format!("{} is not prunable", parameter.layer)),
            },
        })
        .collect())
}

pub(super) fn view(parameter: &Parameter) -> Option<View> {
    view_of(&parameter.layer, &parameter.name, &parameter.shape)
}

fn any(selectors: &[Selector], name: &str) -> bool {
    selectors.iter().any(|selector| selector.matches(name))
}

fn compile(texts: &[String], table: usize, key: &'static str) -> Result<Vec<Selector>, PlanError> {
    let one = |text: &String| {
        Selector::new(text).map_err(|reason| PlanError::Selector {
            table,
            key,
            text: text.clone(),
            reason,
        })
    };
    texts.iter().map(one).collect()
}

fn refuse_unmatched(
    table: &PruneConfig,
    index: usize,
    params: &[Selector],
    except: &[Selector],
    parameters: &[Parameter],
) -> Result<(), PlanError> {
    let fail = |key, text: &String, what, known: Vec<&str>| {
        let known = listed(&known);
        Err(PlanError::NoMatch { table: index, key, text: text.clone(), what, known })
    };
    let prunable = || parameters.iter().filter(|p| view(p).is_some()).map(|p| p.name.as_str());
    for (text, selector) in table.params().iter().zip(params) {
        if !prunable().any(|name| selector.matches(name)) {
            return fail("params", text, "prunable parameter", prunable().collect());
        }
    }
    let all = || parameters.iter().map(|p| p.name.as_str());
    for (text, selector) in table.except().iter().zip(except) {
        if !all().any(|name| selector.matches(name)) {
            return fail("except", text, "parameter", all().collect());
        }
    }
    Ok(())
}
