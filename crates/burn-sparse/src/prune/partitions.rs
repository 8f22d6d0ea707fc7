use super::planned::tables;
use super::{PlanError, PlannedWeight, Regrow, Turn};

/// Assigns the weights of every grow-and-prune rule to partitions of about equal size, in the model's order.
pub(crate) fn take_turns(weights: &mut [PlannedWeight]) -> Result<(), PlanError> {
    for (table, indices) in tables(weights) {
        let Regrow::GrowAndPrune(turns) = weights[indices[0]].regrow else { continue };
        let (count, partitions, rounds) = (indices.len(), turns.partitions, turns.rounds);
        if partitions > count {
            let reason = format!("has {partitions} partitions for {count} weights");
            return Err(PlanError::Ramp { table, key: "regrow", reason });
        }
        for (place, index) in indices.into_iter().enumerate() {
            let partition = place * partitions / count;
            weights[index].schedule.turn = Some(Turn { partition, partitions, rounds });
        }
    }
    Ok(())
}
