use half::{bf16, f16};
use safetensors::Dtype;

use super::Integers;

/// Float type of values in a file. In memory, values are `f32`, which represents all of these types
/// exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FloatType {
    /// IEEE single precision.
    #[default]
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16: the upper half of an f32.
    BF16,
}

/// Type of stored values: floats, or integers with scales.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// Floats.
    Float(FloatType),
    /// Integers from -127 to 127, times the scale of their row.
    Int8,
    /// One of sixteen [levels](super::LEVELS), times the scale of their row and block of columns.
    Int4,
}

impl From<Integers> for ValueType {
    fn from(integers: Integers) -> Self {
        match integers {
            Integers::Int8 => Self::Int8,
            Integers::Int4 => Self::Int4,
        }
    }
}

impl From<FloatType> for ValueType {
    fn from(float: FloatType) -> Self {
        Self::Float(float)
    }
}

impl ValueType {
    /// Returns the number of bits per value.
    pub fn bits(self) -> usize {
        match self {
            Self::Float(float) => 8 * float.width(),
            Self::Int8 => 8,
            Self::Int4 => 4,
        }
    }

    /// Returns the name, as safetensors spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float(FloatType::F32) => "F32",
            Self::Float(FloatType::F16) => "F16",
            Self::Float(FloatType::BF16) => "BF16",
            Self::Int8 => "I8",
            Self::Int4 => "I4",
        }
    }
}

impl FloatType {
    /// Returns the float type of a safetensors dtype, if it is one of these.
    pub fn of(dtype: Dtype) -> Option<Self> {
        match dtype {
            Dtype::F32 => Some(Self::F32),
            Dtype::F16 => Some(Self::F16),
            Dtype::BF16 => Some(Self::BF16),
            _ => None,
        }
    }

    /// Returns the corresponding safetensors dtype.
    pub fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::F16 => Dtype::F16,
            Self::BF16 => Dtype::BF16,
        }
    }

    /// Returns the number of bytes per value.
    pub fn width(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    /// Decodes little-endian bytes into `into`, which has one element per value.
    pub fn decode(self, bytes: &[u8], into: &mut [f32]) {
        let pairs = || bytes.chunks_exact(2).map(|b| [b[0], b[1]]);
        match self {
            Self::F32 => {
                for (value, b) in into.iter_mut().zip(bytes.chunks_exact(4)) {
                    *value = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                }
            }
            Self::F16 => {
                into.iter_mut().zip(pairs()).for_each(|(v, b)| *v = f16::from_le_bytes(b).into());
            }
            Self::BF16 => {
                into.iter_mut().zip(pairs()).for_each(|(v, b)| *v = bf16::from_le_bytes(b).into());
            }
        }
    }

    /// Encodes values as little-endian bytes, rounded to the nearest value of this type.
    pub fn encode(self, values: &[f32]) -> Vec<u8> {
        match self {
            Self::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Self::F16 => values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect(),
            Self::BF16 => values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect(),
        }
    }
}
