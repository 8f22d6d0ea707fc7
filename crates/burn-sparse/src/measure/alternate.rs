use std::time::Instant;

/// Number of samples of every run, after a warm-up.
const SAMPLES: usize = 15;

/// Minimum seconds of a sample, so that the resolution of the clock does not matter.
const SAMPLE_SECONDS: f64 = 2e-3;

/// Measures the median seconds of one repetition of each run. Samples alternate, so that a slow phase of the machine affects
/// all of them.
///
/// Every run is called with a number of repetitions, at least `least`, and must wait for their completion.
pub fn alternate<const N: usize>(least: usize, runs: [&dyn Fn(usize); N]) -> [f64; N] {
    let medians = alternate_all(least, &runs);
    std::array::from_fn(|at| medians[at])
}

/// [`alternate`] for a number of runs that is not known when compiling.
pub fn alternate_all(least: usize, runs: &[&dyn Fn(usize)]) -> Vec<f64> {
    let sample = |run: &dyn Fn(usize), repeats: usize| {
        let started = Instant::now();
        run(repeats);
        started.elapsed().as_secs_f64() / repeats as f64
    };
    let repeats = runs.iter().map(|run| {
        // The first pass may also upload or compile.
        let seconds = sample(run, least).min(sample(run, least));
        ((SAMPLE_SECONDS / seconds).ceil() as usize).clamp(least, least.max(10_000))
    });
    let repeats: Vec<usize> = repeats.collect();
    let mut times = vec![Vec::with_capacity(SAMPLES); runs.len()];
    for round in 0..=SAMPLES {
        for ((run, &repeats), times) in runs.iter().zip(&repeats).zip(&mut times) {
            let seconds = sample(run, repeats);
            if round > 0 {
                times.push(seconds);
            }
        }
    }
    let medians = times.into_iter().map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[SAMPLES / 2]
    });
    medians.collect()
}
