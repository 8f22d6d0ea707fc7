//! Published Shfl-BW row search, as implemented by its authors (Huang et al., DAC'22; the
//! `block_row_permuted` branch of their training code): exact-size k-means on the rows of the binary
//! mask at twice the density, ten starts, the best by inertia. A baseline for quality, not for speed.

use burn_sparse_pattern::{RowOrder, Scores};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const STARTS: usize = 10;
const ITERATIONS: usize = 300;

/// Returns the row order in clusters of exactly `vector` rows; the last may be shorter.
pub fn search(scores: &Scores<'_>, vector: usize, sparsity: f64) -> RowOrder {
    let (rows, cols) = (scores.rows(), scores.cols());
    let points = binary(scores, sparsity);
    let sizes: Vec<usize> =
        (0..rows).step_by(vector).map(|first| vector.min(rows - first)).collect();
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut best: Option<(f64, Vec<usize>)> = None;
    for _ in 0..STARTS {
        let mut centres = plus_plus(&points, cols, sizes.len(), &mut random);
        let mut last = Vec::new();
        for _ in 0..ITERATIONS {
            let costs = distances(&points, &centres, cols);
            let next = transport(&costs, &sizes, last.clone());
            if next == last {
                break;
            }
            last = next;
            centres = means(&points, &last, cols, sizes.len());
        }
        let costs = distances(&points, &centres, cols);
        let inertia = last.iter().enumerate().map(|(r, &g)| costs[r * sizes.len() + g]).sum();
        if best.as_ref().is_none_or(|(least, _)| inertia < *least) {
            best = Some((inertia, last));
        }
    }
    let (_, group_of) = best.expect("at least one start");
    let order = (0..sizes.len()).flat_map(|group| {
        let members = group_of.iter().enumerate().filter(move |&(_, &g)| g == group);
        members.map(|(row, _)| row as u32).collect::<Vec<_>>()
    });
    RowOrder::new(order.collect()).expect("clusters part the rows")
}

/// Returns 1 for scores above the percentile `100 - 2 * (100 - 100 s)`, and 0 for all others.
fn binary(scores: &Scores<'_>, sparsity: f64) -> Vec<f64> {
    let mut sorted = scores.values().to_vec();
    sorted.sort_by(f32::total_cmp);
    let share = (1.0 - 2.0 * (1.0 - sparsity)).max(0.0);
    let threshold = sorted[((sorted.len() - 1) as f64 * share) as usize];
    scores.values().iter().map(|&score| f64::from(u8::from(score > threshold))).collect()
}

fn square_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Selects k-means++ centres.
fn plus_plus(points: &[f64], cols: usize, count: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
    let rows = points.len() / cols;
    let mut centres = points[random.random_range(0..rows) * cols..][..cols].to_vec();
    let mut nearest = vec![f64::INFINITY; rows];
    while centres.len() < count * cols {
        let newest = &centres[centres.len() - cols..];
        for (nearest, point) in nearest.iter_mut().zip(points.chunks_exact(cols)) {
            *nearest = nearest.min(square_distance(point, newest));
        }
        let mut left = random.random::<f64>() * nearest.iter().sum::<f64>();
        let hit = nearest.iter().position(|distance| {
            left -= distance;
            left < 0.0
        });
        centres.extend_from_slice(&points[hit.unwrap_or(rows - 1) * cols..][..cols]);
    }
    centres
}

/// Computes the squared distances, `[rows, centres]`.
fn distances(points: &[f64], centres: &[f64], cols: usize) -> Vec<f64> {
    let from = |point| centres.chunks_exact(cols).map(move |c| square_distance(point, c));
    points.chunks_exact(cols).flat_map(from).collect()
}

fn means(points: &[f64], group_of: &[usize], cols: usize, groups: usize) -> Vec<f64> {
    let (mut means, mut sizes) = (vec![0.0; groups * cols], vec![0.0; groups]);
    for (point, &group) in points.chunks_exact(cols).zip(group_of) {
        sizes[group] += 1.0;
        for (mean, value) in means[group * cols..][..cols].iter_mut().zip(point) {
            *mean += value;
        }
    }
    for (means, size) in means.chunks_exact_mut(cols).zip(sizes) {
        means.iter_mut().for_each(|mean| *mean /= size);
    }
    means
}

/// Computes the cheapest assignment to groups of exactly these sizes (a transportation problem):
/// cancels negative cycles of moves between groups until there are none, which proves that it is
/// optimal.
fn transport(costs: &[f64], sizes: &[usize], start: Vec<usize>) -> Vec<usize> {
    let groups = sizes.len();
    let rows = costs.len() / groups;
    let mut group_of = start;
    if group_of.is_empty() {
        // Assigns the rows in turn to their cheapest group that has room.
        let mut room = sizes.to_vec();
        for row in 0..rows {
            let cost = |g: &usize| costs[row * groups + g];
            let open = (0..groups).filter(|&g| room[g] > 0);
            let group = open.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("room for all rows");
            room[group] -= 1;
            group_of.push(group);
        }
    }
    // The cheapest move of a row from one group to another.
    let mut moves = vec![(f64::INFINITY, 0); groups * groups];
    let refill = |moves: &mut [(f64, usize)], from: usize, group_of: &[usize]| {
        moves[from * groups..][..groups].fill((f64::INFINITY, 0));
        for row in (0..rows).filter(|&row| group_of[row] == from) {
            for to in 0..groups {
                let cost = costs[row * groups + to] - costs[row * groups + from];
                if to != from && cost < moves[from * groups + to].0 {
                    moves[from * groups + to] = (cost, row);
                }
            }
        }
    };
    (0..groups).for_each(|from| refill(&mut moves, from, &group_of));
    while let Some(cycle) = negative_cycle(&moves, groups) {
        for &(from, to) in &cycle {
            group_of[moves[from * groups + to].1] = to;
        }
        cycle.iter().for_each(|&(from, _)| refill(&mut moves, from, &group_of));
    }
    group_of
}

/// Returns a cycle of moves that lowers the cost (Bellman-Ford).
fn negative_cycle(moves: &[(f64, usize)], groups: usize) -> Option<Vec<(usize, usize)>> {
    let (mut cost, mut before) = (vec![0.0_f64; groups], vec![usize::MAX; groups]);
    let mut touched = None;
    for _ in 0..groups {
        touched = None;
        for from in 0..groups {
            for to in 0..groups {
                let next = cost[from] + moves[from * groups + to].0;
                if next < cost[to] - 1e-9 {
                    (cost[to], before[to], touched) = (next, from, Some(to));
                }
            }
        }
        touched?;
    }
    // Following the chain back far enough always ends on the cycle.
    let mut at = touched?;
    for _ in 0..groups {
        at = before[at];
    }
    let (first, mut cycle) = (at, Vec::new());
    loop {
        cycle.push((before[at], at));
        at = before[at];
        if at == first {
            return Some(cycle);
        }
    }
}
