/// Number of scores that the rounds of exchanges read, over all starts together unless there is only one.
const ROUNDS: f64 = 2.5e8;

/// Amount of work in each step of a search, derived from the shape of the matrix.
pub(super) struct Effort {
    pub(super) starts: usize,
    pub(super) soft: usize,
    pub(super) hard: usize,
    pub(super) rounds: usize,
    pub(super) annealed: usize,
}

impl Effort {
    /// Computes the effort. Tuned for 4096 x 4096 in groups of 32: well under a second for a cold
    /// start, 0.2 seconds for a warm start, on two cores.
    pub(super) fn new(share: f64, warm: bool, rows: usize, cols: usize, groups: usize) -> Self {
        let scores = rows as f64 * cols as f64;
        let assignment = scores * groups as f64;
        let times = |all: f64, each: f64, least: usize, most: usize| {
            let most = (most as f64 * share).ceil() as usize;
            ((all * share / each) as usize).clamp(least.min(most), most)
        };
        if warm {
            let rounds = times(5e7, scores, 3, 8 * groups);
            return Self { starts: 1, soft: 0, hard: 2, rounds, annealed: 0 };
        }
        let rounds = times(ROUNDS, scores, 5, 8 * groups);
        Self {
            // A small matrix is searched again from other rows: this is cheap, and only there does the
            // result depend on the luck of one start, most of all if a few rows leave little choice of
            // seeds. Short vectors make many groups, hence many rounds, and leave less to luck.
            starts: times(2e6, scores, 1, 16).max(times(8e3, scores, 0, 128)).min(times(
                ROUNDS,
                scores * rounds as f64,
                1,
                128,
            )),
            soft: times(1.3e10, assignment, 3, 24),
            hard: 2,
            rounds,
            annealed: times(4e6, scores, 0, 200),
        }
    }
}
