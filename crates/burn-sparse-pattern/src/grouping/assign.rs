/// Tolerated distance of an assignment from the optimum, as a share of the mean spread of gains.
const STEP: f32 = 0.02;

/// Number of bids per row after which the remaining rows are placed greedily.
const PATIENCE: usize = 200;

/// Assigns every row to a group so that all groups have exactly the given sizes and the sum of gains is
/// nearly maximal. Uses an auction (Bertsekas, "The auction algorithm for the transportation problem",
/// 1989), in which rows bid for places and groups drop their lowest bidder.
///
/// `wishes` returns the gains of one row, one per group. Returns the group of every row.
pub(crate) fn assign<'a>(
    rows: usize,
    wishes: impl Fn(u32) -> &'a [f32],
    sizes: &[usize],
) -> Vec<u32> {
    let groups = sizes.len();
    let step = step(rows, &wishes);
    let mut prices = vec![0.0_f32; groups];
    let mut places: Vec<Vec<(f32, u32)>> = sizes.iter().map(|&n| Vec::with_capacity(n)).collect();
    let mut waiting: Vec<u32> = (0..rows as u32).rev().collect();
    let mut patience = rows * PATIENCE;
    while let Some(row) = waiting.pop() {
        let wishes = wishes(row);
        let patient = patience > 0;
        patience = patience.saturating_sub(1);
        let open = |group: usize| patient || places[group].len() < sizes[group];
        let (group, margin) = best_two(wishes, &prices, open);
        let bid = prices[group] + margin + step;
        let held = &mut places[group];
        if held.len() == sizes[group] {
            let lowest = lowest(held);
            waiting.push(held.swap_remove(lowest).1);
        }
        held.push((bid, row));
        if held.len() == sizes[group] {
            prices[group] = held[lowest(held)].0;
        }
    }
    let mut group_of = vec![0; rows];
    for (group, held) in places.iter().enumerate() {
        for &(_, row) in held {
            group_of[row as usize] = group as u32;
        }
    }
    group_of
}

/// Returns the open group with the best gain minus price, and its lead over the second best.
fn best_two(wishes: &[f32], prices: &[f32], open: impl Fn(usize) -> bool) -> (usize, f32) {
    let (mut best, mut first, mut second) = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (group, (wish, price)) in wishes.iter().zip(prices).enumerate() {
        let value = wish - price;
        if value > second && open(group) {
            if value > first {
                (second, first, best) = (first, value, group);
            } else {
                second = value;
            }
        }
    }
    let margin = if second.is_finite() { first - second } else { 0.0 };
    (best, margin)
}

fn lowest(held: &[(f32, u32)]) -> usize {
    let by_bid =
        |a: &usize, b: &usize| held[*a].0.total_cmp(&held[*b].0).then(held[*b].1.cmp(&held[*a].1));
    (0..held.len()).min_by(by_bid).unwrap_or(0)
}

/// Computes the smallest increment of a bid, from the mean distance between a row's best and mean gain.
fn step<'a>(rows: usize, wishes: impl Fn(u32) -> &'a [f32]) -> f32 {
    let spread = |row: u32| {
        let wishes = wishes(row);
        let best = wishes.iter().copied().fold(0.0_f32, f32::max);
        let sum: f64 = wishes.iter().map(|&wish| f64::from(wish)).sum();
        f64::from(best) - sum / wishes.len() as f64
    };
    let mean = (0..rows as u32).map(spread).sum::<f64>() / rows as f64;
    (mean as f32 * STEP).max(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_get_exactly_their_size_and_nearly_the_best_total() {
        // Each row clearly prefers group `row % 3`, except that row 0 would rather be in group 1.
        let mut gains = [0.0; 9 * 3];
        for row in 0..9 {
            gains[row * 3 + row % 3] = 1.0;
        }
        gains[1] = 1.1;
        let group_of = assign(9, |row| &gains[row as usize * 3..][..3], &[3, 3, 3]);
        assert_eq!(group_of, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn equal_gains_still_fill_every_group() {
        let group_of = assign(7, |_| &[0.0; 3], &[3, 3, 1]);
        let size = |g| group_of.iter().filter(|&&x| x == g).count();
        assert_eq!((size(0), size(1), size(2)), (3, 3, 1));
    }
}
