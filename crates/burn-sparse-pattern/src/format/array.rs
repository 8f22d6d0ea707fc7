use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::ser::{SerializeMap, Serializer};

use super::FloatType;
use super::container::METADATA;

/// Tensor to write; it is converted to bytes in pieces.
#[derive(Debug, Clone)]
pub struct Array<'a> {
    /// Shape of the tensor.
    pub shape: Vec<usize>,
    /// Elements of the tensor.
    pub data: Data<'a>,
}

/// Elements of an [`Array`].
#[derive(Debug, Clone)]
pub enum Data<'a> {
    /// Floats, written as this type.
    Floats(Cow<'a, [f32]>, FloatType),
    /// Ids, two bytes each.
    Ids16(Cow<'a, [u32]>),
    /// Ids, four bytes each.
    Ids32(Cow<'a, [u32]>),
    /// Signed ids, eight bytes each.
    Ids64(Vec<i64>),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// Signed bytes.
    SignedBytes(Vec<i8>),
}

/// Number of elements converted to bytes at a time.
const PIECE: usize = 1 << 16;

impl<'a> Array<'a> {
    /// Creates an array of floats.
    pub fn floats(shape: Vec<usize>, values: impl Into<Cow<'a, [f32]>>, float: FloatType) -> Self {
        Self { shape, data: Data::Floats(values.into(), float) }
    }

    /// Creates an array of bytes.
    pub fn bytes(shape: Vec<usize>, bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { shape, data: Data::Bytes(bytes.into()) }
    }

    /// Creates an array of signed bytes.
    pub(super) fn signed_bytes(shape: Vec<usize>, bytes: Vec<i8>) -> Self {
        Self { shape, data: Data::SignedBytes(bytes) }
    }

    /// Creates an array of ids below `limit`, in the narrowest type that holds them.
    pub(super) fn ids(shape: Vec<usize>, ids: &'a [u32], limit: usize) -> Self {
        let narrow = limit <= 1 << 16;
        Self { shape, data: if narrow { Data::Ids16(ids.into()) } else { Data::Ids32(ids.into()) } }
    }

    fn dtype(&self) -> Dtype {
        match &self.data {
            Data::Floats(_, float) => float.dtype(),
            Data::Ids16(_) => Dtype::U16,
            Data::Ids32(_) => Dtype::U32,
            Data::Ids64(_) => Dtype::I64,
            Data::Bytes(_) => Dtype::U8,
            Data::SignedBytes(_) => Dtype::I8,
        }
    }

    fn len(&self) -> usize {
        match &self.data {
            Data::Floats(values, _) => values.len(),
            Data::Ids16(ids) | Data::Ids32(ids) => ids.len(),
            Data::Ids64(ids) => ids.len(),
            Data::Bytes(bytes) => bytes.len(),
            Data::SignedBytes(bytes) => bytes.len(),
        }
    }

    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        (self.len() * self.dtype().bitsize() / 8) as u64
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match &self.data {
            Data::Floats(values, FloatType::F32) if cfg!(target_endian = "little") => {
                out.write_all(bytemuck::cast_slice(values))
            }
            Data::Floats(values, float) => {
                values.chunks(PIECE).try_for_each(|piece| out.write_all(&float.encode(piece)))
            }
            Data::Ids16(ids) => pieces(ids, out, |id| (*id as u16).to_le_bytes()),
            Data::Ids32(ids) => pieces(ids, out, |id| id.to_le_bytes()),
            Data::Ids64(ids) => pieces(ids, out, |id| id.to_le_bytes()),
            Data::Bytes(bytes) => out.write_all(bytes),
            Data::SignedBytes(bytes) => out.write_all(bytemuck::cast_slice(bytes)),
        }
    }
}

fn pieces<T, const N: usize>(
    all: &[T],
    out: &mut dyn Write,
    bytes: impl Fn(&T) -> [u8; N],
) -> io::Result<()> {
    all.chunks(PIECE).try_for_each(|piece| {
        let bytes: Vec<u8> = piece.iter().flat_map(&bytes).collect();
        out.write_all(&bytes)
    })
}

/// Writes a safetensors file: wide types first, so that every array is aligned to its elements, then by
/// name. Equal arrays and metadata give bitwise identical files.
///
/// # Errors
/// Returns an error if writing fails, or the shape of an array does not match its number of elements.
pub fn write_safetensors(
    arrays: &BTreeMap<String, Array<'_>>,
    metadata: &BTreeMap<String, String>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut order: Vec<(&String, &Array<'_>)> = arrays.iter().collect();
    order.sort_by_key(|(_, array)| std::cmp::Reverse(array.dtype().bitsize()));
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut json);
    let mut header = serializer.serialize_map(None)?;
    if !metadata.is_empty() {
        header.serialize_entry(METADATA, metadata)?;
    }
    let mut end = 0;
    for (name, array) in &order {
        if array.shape.iter().product::<usize>() != array.len() {
            let reason = format!("{name}: {} elements for {:?}", array.len(), array.shape);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let from = end;
        end += array.size() as usize;
        let (dtype, shape) = (array.dtype(), array.shape.clone());
        header.serialize_entry(name, &TensorInfo { dtype, shape, data_offsets: (from, end) })?;
    }
    SerializeMap::end(header)?;
    json.resize(json.len().next_multiple_of(8), b' ');
    out.write_all(&(json.len() as u64).to_le_bytes())?;
    out.write_all(&json)?;
    order.into_iter().try_for_each(|(_, array)| array.write(out))
}
