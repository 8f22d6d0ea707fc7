/// Least number of units of time that a budget is divided into.
const UNITS: usize = 10_000;

/// The same for each weight: rounding all times up to whole units then costs at most half a percent of the budget.
const UNITS_PER_WEIGHT: usize = 200;

/// Returns the option of each weight that minimizes the sum of errors, with a sum of times of at most `budget`. Options
/// are pairs of a time, 0 for the fastest of each weight, and an error. Times are rounded up to units.
pub(super) fn cheapest(options: &[Vec<(f64, f64)>], budget: f64) -> Option<Vec<usize>> {
    if budget < 0.0 {
        return None;
    }
    let units = UNITS.max(UNITS_PER_WEIGHT * options.len());
    let in_units = |time: f64| match time > 0.0 {
        // A budget of 0 leaves nothing but the fastest.
        true if budget > 0.0 => (time * units as f64 / budget).ceil() as usize,
        true => units + 1,
        false => 0,
    };
    // Lowest error within each time, and the choices that reach it.
    let mut errors = vec![0.0; units + 1];
    let mut choices: Vec<Vec<u32>> = Vec::with_capacity(options.len());
    for options in options {
        let mut next = vec![f64::INFINITY; units + 1];
        let mut choice = vec![0; units + 1];
        for (at, &(time, error)) in options.iter().enumerate() {
            let time = in_units(time);
            for spent in time..=units {
                let sum = errors[spent - time] + error;
                if sum < next[spent] {
                    (next[spent], choice[spent]) = (sum, at as u32);
                }
            }
        }
        errors = next;
        choices.push(choice);
    }
    let mut spent = units;
    let mut chosen: Vec<usize> = options
        .iter()
        .zip(&choices)
        .rev()
        .map(|(options, choice)| {
            let at = choice[spent] as usize;
            spent -= in_units(options[at].0);
            at
        })
        .collect();
    chosen.reverse();
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Returns all ways to take one option of each weight.
    fn ways(options: &[Vec<(f64, f64)>]) -> Vec<Vec<usize>> {
        options.iter().fold(vec![Vec::new()], |ways, options| {
            let longer = |way: &Vec<usize>| -> Vec<Vec<usize>> {
                (0..options.len()).map(|at| [&way[..], &[at]].concat()).collect()
            };
            ways.iter().flat_map(longer).collect()
        })
    }

    #[test]
    fn no_other_choice_within_the_time_has_a_lower_error() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..50 {
            let weights = random.random_range(1..=5);
            // Whole times, which stay exact when rounded to units of a whole budget.
            let mut option =
                || (f64::from(random.random_range(1_u32..20)), random.random_range(0.0..1.0));
            let options: Vec<Vec<(f64, f64)>> =
                (0..weights).map(|_| vec![(0.0, 1.0), option(), option()]).collect();
            let sum = |way: &[usize]| {
                way.iter().zip(&options).fold((0.0, 0.0), |(time, error), (&at, options)| {
                    (time + options[at].0, error + options[at].1)
                })
            };
            for budget in [0.0, 10.0, 25.0, 100.0] {
                let (time, error) = sum(&cheapest(&options, budget).unwrap());
                assert!(time <= budget, "{time} of {budget}");
                let within = ways(&options).into_iter().map(|way| sum(&way));
                let best = within.filter(|(time, _)| *time <= budget).map(|(_, error)| error);
                let best = best.fold(f64::INFINITY, f64::min);
                assert!((error - best).abs() < 1e-12, "{error}, at best {best}");
            }
        }
        assert_eq!(cheapest(&[vec![(0.0, 1.0)]], -1.0), None);
        assert_eq!(cheapest(&[], 5.0), Some(vec![]));
    }
}
