//! `cvt`: conversions between types, with their rounding modes.

use half::{bf16, f16};

use crate::instructions::arithmetic::{down, to_zero, up};
use crate::instructions::value::Value;
use crate::text::size_of;

/// A decoded conversion.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Convert {
    to: Kind,
    from: Kind,
    round: Round,
    saturate: bool,
    relu: bool,
    /// `true` if each half of the result has its own source.
    pub packed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unsigned(u32),
    Signed(u32),
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Kind {
    fn of(name: &str) -> Option<Self> {
        let bits = size_of(name)? as u32 * 8;
        Some(match name {
            "f16" | "f16x2" => Self::F16,
            "bf16" | "bf16x2" => Self::Bf16,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f64" => Self::F64,
            _ if name.starts_with(['u', 'b']) => Self::Unsigned(bits),
            _ if name.starts_with('s') => Self::Signed(bits),
            _ => return None,
        })
    }

    fn float(self) -> bool {
        !matches!(self, Self::Unsigned(_) | Self::Signed(_))
    }
}

impl Convert {
    pub(crate) fn of(parts: &[&str]) -> Option<Self> {
        let [.., to_name, from] = parts else { return None };
        let (to, from) = (Kind::of(to_name)?, Kind::of(from)?);
        let modifier = |names: &[&str]| parts.iter().any(|part| names.contains(part));
        let round = match () {
            () if modifier(&["rz", "rzi"]) => Round::Zero,
            () if modifier(&["rm", "rmi"]) => Round::Down,
            () if modifier(&["rp", "rpi"]) => Round::Up,
            () => Round::Nearest,
        };
        // `cvt.rni.f32.f32` rounds to a whole number, as every conversion to integers does; it is rejected below.
        let packed = to_name.ends_with("x2");
        Some(Self {
            to,
            from,
            round,
            saturate: modifier(&["sat"]),
            relu: modifier(&["relu"]),
            packed,
        })
        .filter(|_| !to.float() || !from.float() || !modifier(&["rzi", "rmi", "rpi", "rni"]))
    }

    /// Converts one value.
    pub(crate) fn apply(self, bits: u64) -> u64 {
        match self.from {
            Kind::Unsigned(width) => self.integer(i128::from(bits & mask(width))),
            Kind::Signed(width) => {
                self.integer(i128::from((bits << (64 - width)) as i64 >> (64 - width)))
            }
            Kind::F16 => self.number(f16::get(bits).to_f64()),
            Kind::Bf16 => self.number(bf16::get(bits).to_f64()),
            Kind::F32 | Kind::Tf32 => self.number(f32::get(bits).into()),
            Kind::F64 => self.number(f64::get(bits)),
        }
    }

    fn integer(self, x: i128) -> u64 {
        let (low, high) = match self.to {
            Kind::Unsigned(width) => (0, (1_i128 << width) - 1),
            Kind::Signed(width) => (-(1_i128 << (width - 1)), (1_i128 << (width - 1)) - 1),
            // 64-bit integers lose bits in f64; only the nearest value is required here.
            _ => return self.number(x as f64),
        };
        let x = if self.saturate { x.clamp(low, high) } else { x };
        let bits = match self.to {
            Kind::Unsigned(width) | Kind::Signed(width) => mask(width),
            _ => u64::MAX,
        };
        // A signed type narrower than 32 bits is sign-extended to the register's 32 bits.
        match self.to {
            Kind::Signed(width) if width < 32 => x as i32 as u32 as u64 & mask(width.max(32)),
            _ => x as u64 & bits,
        }
    }

    fn number(self, x: f64) -> u64 {
        let x = if self.relu { x.max(0.0) } else { x };
        let x = if self.saturate && self.to.float() { x.clamp(0.0, 1.0) } else { x };
        // Saturation turns NaN into 0; `clamp` keeps NaN.
        let x = if self.saturate && self.to.float() && x.is_nan() { 0.0 } else { x };
        match self.to {
            Kind::F64 => x.bits(),
            Kind::F32 => match self.round {
                Round::Nearest => x as f32,
                Round::Zero => to_zero(x),
                Round::Down => down(x),
                Round::Up => up(x),
            }
            .bits(),
            // Ten fraction bits, ties away from zero: `rna`, the only rounding mode for tf32 on these devices.
            Kind::Tf32 if x.is_finite() => ((x as f32).bits() + 0x1000) & !0x1FFF,
            Kind::Tf32 => (x as f32).bits(),
            Kind::F16 => f16::from_f64(x).bits(),
            Kind::Bf16 if self.round == Round::Zero => (x as f32).bits() >> 16,
            Kind::Bf16 => bf16::from_f64(x).bits(),
            Kind::Unsigned(width) => (self.whole(x).clamp(0.0, 1.9e19) as u64).min(mask(width)),
            Kind::Signed(width) => {
                let most = (mask(width) >> 1) as i64;
                ((self.whole(x) as i64).clamp(-most - 1, most) as u64) & mask(width.max(32))
            }
        }
    }

    fn whole(self, x: f64) -> f64 {
        match self.round {
            Round::Nearest => x.round_ties_even(),
            Round::Zero => x.trunc(),
            Round::Down => x.floor(),
            Round::Up => x.ceil(),
        }
    }
}

fn mask(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}
