use crate::{GroupedPacked, Packed, Pattern, PatternError};

/// Checks that a packed matrix obeys a pattern. Properties that the layout guarantees on construction
/// (fixed counts, ascending ids, a valid row order) are not checked again.
pub(super) fn check(packed: &Packed, pattern: &Pattern) -> Result<(), PatternError> {
    pattern.validate()?;
    let found = match (packed, *pattern) {
        (Packed::Unstructured(_), Pattern::Unstructured {}) => Ok(()),
        (Packed::Balanced(packed), Pattern::Balanced { block }) => same(packed.block(), block),
        (Packed::Balanced(packed), Pattern::NOfM { keep, of }) => {
            // A row shorter than a block may keep any count.
            let kept = if packed.cols() < of { keep } else { packed.kept() };
            same(packed.block(), of).and(same(kept, keep))
        }
        (Packed::Grouped(packed), Pattern::VectorWise { vector, equal_groups }) => {
            unmoved(packed).and(same(packed.vector(), vector)).and(counts(packed, equal_groups))
        }
        (Packed::Grouped(packed), Pattern::ShflBw { vector, equal_groups }) => {
            same(packed.vector(), vector).and(counts(packed, equal_groups))
        }
        (Packed::Grouped(packed), Pattern::BlockWise { block }) => {
            unmoved(packed).and(same(packed.vector(), block)).and(blocks(packed, block))
        }
        (Packed::Hierarchical(packed), Pattern::Hinm { vector, keep, of }) => {
            let most = packed.cols() / of;
            let inner = same(packed.vector(), vector).and(if packed.keep_of() == (keep, of) {
                Ok(())
            } else {
                other()
            });
            match packed.runs() {
                runs if runs > most => inner.and(Err((
                    "every group".into(),
                    format!("at most {most} runs of {of} columns"),
                    runs.to_string(),
                ))),
                _ => inner,
            }
        }
        _ => other(),
    };
    found.map_err(|(place, expected, found)| {
        let pattern = pattern.to_string();
        PatternError::Violation { pattern, place, expected, found }
    })
}

/// Result of a check; the error holds place, expected and found.
type Found = Result<(), (String, String, String)>;

fn other() -> Found {
    Err(("the whole matrix".into(), "its layout".into(), "another one".into()))
}

fn same(found: usize, expected: usize) -> Found {
    if found == expected {
        return Ok(());
    }
    Err((
        "the whole matrix".into(),
        format!("its layout, of {expected}"),
        format!("one of {found}"),
    ))
}

fn unmoved(packed: &GroupedPacked) -> Found {
    match packed.row_order() {
        None => Ok(()),
        Some(_) => {
            Err(("the whole matrix".into(), "rows in their places".into(), "a row order".into()))
        }
    }
}

fn counts(packed: &GroupedPacked, equal: bool) -> Found {
    let first = packed.range(0).len();
    match (1..packed.groups()).find(|&group| packed.range(group).len() != first) {
        Some(group) if equal => Err((
            format!("group {group}"),
            format!("{first} kept columns as in group 0"),
            packed.range(group).len().to_string(),
        )),
        _ => Ok(()),
    }
}

/// Checks that the columns form whole aligned blocks.
fn blocks(packed: &GroupedPacked, block: usize) -> Found {
    for group in 0..packed.groups() {
        let columns = &packed.columns()[packed.range(group)];
        let mut rest = columns;
        while let Some(&first) = rest.first() {
            let left = first as usize / block * block;
            let width = block.min(packed.cols() - left);
            let whole = rest.len() >= width
                && rest
                    .iter()
                    .zip(left..left + width)
                    .all(|(&col, expected)| col as usize == expected);
            if !whole {
                let place = format!("group {group}, columns {left} to {}", left + width - 1);
                let inside =
                    columns.iter().filter(|&&col| col as usize / block * block == left).count();
                return Err((place, format!("0 or {width} kept columns"), inside.to_string()));
            }
            rest = &rest[width..];
        }
    }
    Ok(())
}
