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
    let sample = |run: &dyn Fn(usize), repeats: usize| {
        let started = Instant::now();
        run(repeats);
        started.elapsed().as_secs_f64() / repeats as f64
    };
    let repeats = runs.map(|run| {
        // The first pass may also upload or compile.
        let seconds = sample(run, least).min(sample(run, least));
        ((SAMPLE_SECONDS / seconds).ceil() as usize).clamp(least, least.max(10_000))
    });
    let mut times = [const { Vec::new() }; N];
    for round in 0..=SAMPLES {
        for (at, run) in runs.iter().enumerate() {
            let seconds = sample(run, repeats[at]);
            if round > 0 {
                times[at].push(seconds);
            }
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[SAMPLES / 2]
    })
}
