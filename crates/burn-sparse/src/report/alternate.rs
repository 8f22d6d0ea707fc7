use std::time::Instant;

/// Samples of every run, after one to warm up.
const SAMPLES: usize = 15;

/// Seconds of one sample at least, so that the clock's own grain does not show.
const SAMPLE_SECONDS: f64 = 2e-3;

/// Median seconds of one repetition of each run. Samples alternate, so that whatever slows the machine slows
/// all of them.
///
/// A run is called with the number of repetitions it is to do, `least` at the fewest, and to wait for.
pub fn alternate<const N: usize>(least: usize, runs: [&dyn Fn(usize); N]) -> [f64; N] {
    let sample = |run: &dyn Fn(usize), repeats: usize| {
        let started = Instant::now();
        run(repeats);
        started.elapsed().as_secs_f64() / repeats as f64
    };
    let repeats = runs.map(|run| {
        // Twice, since the first pass may also upload or compile.
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
