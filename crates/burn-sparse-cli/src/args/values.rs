//! Parsers of argument values.

use std::time::Duration;

use burn_sparse::pattern::{Distribution, Pattern};
use burn_sparse_run::sweep::Method;

pub(crate) fn method(text: &str) -> Result<Method, String> {
    let (name, sets) = text.split_once(':').ok_or("expected NAME:KEY=VALUE;...")?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!("{name:?} names a folder: letters, digits, -, _ and . only"));
    }
    let sets = sets.split(';').map(str::trim).filter(|set| !set.is_empty());
    Ok(Method { name: name.into(), sets: sets.map(String::from).collect() })
}

/// List of patterns, separated by commas outside parentheses.
#[derive(Debug, Clone)]
pub(crate) struct Patterns(pub(crate) Vec<Pattern>);

pub(crate) fn patterns(text: &str) -> Result<Patterns, String> {
    let (mut depth, mut parts) = (0_i32, vec![String::new()]);
    for letter in text.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        match (letter, parts.last_mut()) {
            (',', _) if depth == 0 => parts.push(String::new()),
            (_, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    let one = |part: &String| part.trim().parse::<Pattern>().map_err(|error| error.to_string());
    parts.iter().map(one).collect::<Result<_, _>>().map(Patterns)
}

pub(crate) fn distribution(text: &str) -> Result<Distribution, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// Parses `30s`, `2m`, or plain seconds.
pub(crate) fn budget(text: &str) -> Result<Duration, String> {
    time(text, &[("s", 1.0), ("m", 60.0), ("", 1.0)])
        .ok_or_else(|| "expected a time, as in 30s or 2m".into())
}

/// Parses `800us`, `4ms`, or `0.5s`.
pub(crate) fn latency(text: &str) -> Result<Duration, String> {
    time(text, &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0)])
        .ok_or_else(|| "expected a time, as in 800us, 4ms or 0.5s".into())
}

/// Parses a positive time in one of these units, each given with its length in seconds.
fn time(text: &str, units: &[(&str, f64)]) -> Option<Duration> {
    units.iter().find_map(|(unit, seconds)| {
        let number = text.trim().strip_suffix(unit)?.trim().parse::<f64>().ok()?;
        Duration::try_from_secs_f64(number * seconds).ok().filter(|time| !time.is_zero())
    })
}

pub(crate) fn speedup(text: &str) -> Result<f64, String> {
    let times = text.trim().parse::<f64>().ok().filter(|times| *times > 1.0 && times.is_finite());
    times.ok_or_else(|| "expected a number above 1, as in 2.0".into())
}

pub(crate) fn shape(text: &str) -> Result<(usize, usize), String> {
    let side = |part: &str| part.trim().parse::<usize>().ok().filter(|&n| n > 0);
    text.split_once('x')
        .and_then(|(rows, cols)| Some((side(rows)?, side(cols)?)))
        .ok_or_else(|| "expected ROWSxCOLS, as in 4096x1024".into())
}

pub(crate) fn batch(text: &str) -> Result<usize, String> {
    let batch = text.trim().parse::<usize>().ok().filter(|&n| n > 0);
    batch.ok_or_else(|| "expected a whole number of at least 1".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_a_unit() {
        for (text, microseconds) in [("800us", 800), ("4 ms", 4000), ("0.5s", 500_000)] {
            assert_eq!(latency(text), Ok(Duration::from_micros(microseconds)), "{text}");
        }
        for text in ["", "4", "ms", "-4ms", "0ms", "4min", "NaNs", "infs"] {
            latency(text).unwrap_err();
        }
    }

    #[test]
    fn commas_inside_parentheses_belong_to_a_pattern() {
        let Patterns(found) = patterns("n-of-m(keep=2,of=4),balanced,shfl-bw(vector=64)").unwrap();
        let spelled: Vec<_> = found.iter().map(Pattern::to_string).collect();
        assert_eq!(spelled, ["n-of-m(keep=2,of=4)", "balanced(block=32)", "shfl-bw(vector=64)"]);
    }
}
