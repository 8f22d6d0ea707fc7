//! Instructions that exchange data between the lanes of a warp: `shfl`, `vote`, `match`, `redux`, `elect`.

use super::decode::{pair, predicate, reg};
use crate::instructions::arithmetic::{self, Alu, of_two};
use crate::instructions::value::{LANES, each};
use crate::machine::warp::Warp;
use crate::text::{Argument, Reg};

#[derive(Debug)]
pub(crate) enum Exchange {
    Shuffle {
        how: Shuffle,
        to: [Option<Reg>; 2],
        from: [Reg; 3],
    },
    /// Mask of the lanes whose predicate holds.
    Ballot {
        to: Reg,
        predicate: Reg,
        negated: bool,
    },
    /// `true` if the predicate holds in all lanes, in any, or has the same value in all.
    Vote {
        how: Vote,
        to: Reg,
        predicate: Reg,
        negated: bool,
    },
    Active {
        to: Reg,
    },
    /// Mask of the lanes that have the same value.
    Match {
        to: Reg,
        from: Reg,
    },
    Reduce {
        run: Alu,
        to: Reg,
        from: Reg,
    },
    /// Number of the lowest active lane, and `true` in that lane.
    Elect {
        to: [Option<Reg>; 2],
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Xor,
    From,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Vote {
    All,
    Any,
    Equal,
}

impl Exchange {
    pub(crate) fn of(parts: &[&str], arguments: &[Argument]) -> Option<Self> {
        let has = |part: &str| parts.contains(&part);
        match parts[0] {
            "shfl" => {
                let how = match () {
                    () if has("up") => Shuffle::Up,
                    () if has("down") => Shuffle::Down,
                    () if has("bfly") => Shuffle::Xor,
                    () => Shuffle::From,
                };
                let from =
                    [reg(arguments.get(1)?)?, reg(arguments.get(2)?)?, reg(arguments.get(3)?)?];
                Some(Self::Shuffle { how, to: pair(arguments.first()?)?, from })
            }
            "vote" => {
                let (predicate, negated) = predicate(arguments.get(1)?)?;
                let to = reg(arguments.first()?)?;
                if has("ballot") {
                    return Some(Self::Ballot { to, predicate, negated });
                }
                let how = match () {
                    () if has("all") => Vote::All,
                    () if has("any") => Vote::Any,
                    () => Vote::Equal,
                };
                Some(Self::Vote { how, to, predicate, negated })
            }
            "activemask" => Some(Self::Active { to: reg(arguments.first()?)? }),
            "match" if has("any") => {
                Some(Self::Match { to: reg(arguments.first()?)?, from: reg(arguments.get(1)?)? })
            }
            "redux" => {
                let run = arithmetic::find(&[parts.get(2)?, parts.last()?])?;
                Some(Self::Reduce {
                    run,
                    to: reg(arguments.first()?)?,
                    from: reg(arguments.get(1)?)?,
                })
            }
            "elect" => Some(Self::Elect { to: pair(arguments.first()?)? }),
            _ => None,
        }
    }

    pub(crate) fn run(&self, warp: &mut Warp, active: u32) {
        let of = |warp: &Warp, reg: Reg| warp.regs[reg as usize];
        let holds = |warp: &Warp, reg: Reg, negated: bool| {
            let lanes = of(warp, reg);
            let bit = |lane: usize| u32::from((lanes[lane] & 1 == 1) != negated) << lane;
            (0..LANES).map(bit).sum::<u32>() & active
        };
        match *self {
            Self::Shuffle { how, to, from } => {
                let [value, by, clamp] = from.map(|reg| of(warp, reg));
                let (mut result, mut found) = ([0; LANES], [0; LANES]);
                for lane in 0..LANES {
                    let (source, inside) =
                        how.source(lane, by[lane] as usize, clamp[lane] as usize);
                    result[lane] = value[if inside { source } else { lane }] & 0xFFFF_FFFF;
                    found[lane] = u64::from(inside);
                }
                for (to, lanes) in to.iter().zip([result, found]) {
                    warp.set_if(*to, &lanes, active);
                }
            }
            Self::Ballot { to, predicate, negated } => {
                let lanes = holds(warp, predicate, negated);
                warp.set(to, &[lanes.into(); LANES], active);
            }
            Self::Vote { how, to, predicate, negated } => {
                let lanes = holds(warp, predicate, negated);
                let result = match how {
                    Vote::All => lanes == active,
                    Vote::Any => lanes != 0,
                    Vote::Equal => lanes == active || lanes == 0,
                };
                warp.set(to, &[result.into(); LANES], active);
            }
            Self::Active { to } => warp.set(to, &[active.into(); LANES], active),
            Self::Match { to, from } => {
                let values = of(warp, from);
                let same = |x: u64| {
                    let bit = |lane: usize| u32::from(values[lane] == x) << lane;
                    u64::from((0..LANES).map(bit).sum::<u32>() & active)
                };
                warp.set(to, &values.map(same), active);
            }
            Self::Reduce { run, to, from } => {
                let values = of(warp, from);
                let mut lanes = each(active).map(|lane| values[lane]);
                let first = lanes.next().unwrap_or_default();
                let sum = lanes.fold(first, |sum, x| of_two(run, sum, x));
                warp.set(to, &[sum; LANES], active);
            }
            Self::Elect { to } => {
                let leader = active.trailing_zeros();
                let lane = [leader.into(); LANES];
                let is_it = std::array::from_fn(|lane| u64::from(lane as u32 == leader));
                warp.set_if(to[0], &lane, active);
                warp.set_if(to[1], &is_it, active);
            }
        }
    }
}

impl Shuffle {
    /// Returns the lane that `lane` reads from, and `true` if it is inside the segment (PTX ISA, `shfl.sync`).
    fn source(self, lane: usize, by: usize, clamp: usize) -> (usize, bool) {
        let (by, segment, last) = (by & 31, clamp >> 8 & 31, clamp & 31);
        let first = lane & segment;
        let last = first | (last & !segment);
        let (source, inside) = match self {
            Self::Up => (lane.wrapping_sub(by), lane as isize - by as isize >= last as isize),
            Self::Down => (lane + by, lane + by <= last),
            Self::Xor => (lane ^ by, lane ^ by <= last),
            Self::From => {
                let source = first | (by & !segment);
                (source, source <= last)
            }
        };
        (source & 31, inside)
    }
}
