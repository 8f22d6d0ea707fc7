//! Reads safetensors files in pieces; the safetensors crate itself requires the whole file in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::unique::Unique;
use super::{FloatType, FormatError, Source};

/// Largest header that is read, as in the safetensors crate.
const MAX_HEADER: u64 = 100_000_000;

/// Number of values decoded at a time.
const PIECE: usize = 1 << 16;

pub(super) const METADATA: &str = "__metadata__";

/// Open safetensors file whose header has been read and checked to describe exactly the bytes of the
/// file.
#[derive(Debug)]
pub struct Safetensors<S> {
    source: S,
    turn: Mutex<()>,
    header: Vec<u8>,
    tensors: Vec<(String, TensorInfo)>,
    metadata: BTreeMap<String, String>,
}

impl<S: Source> Safetensors<S> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// Returns an error if the header claims more bytes than the file has, is not JSON of this form,
    /// names a tensor twice, or describes tensors that leave holes, overlap, or differ in size from
    /// their shapes.
    pub fn open(source: S) -> Result<Self, FormatError> {
        let size = source.size()?;
        let mut prefix = [0; 8];
        if size < 8 {
            let reason = format!("it has {size} bytes, fewer than the length of a header takes");
            return Err(FormatError::Safetensors { reason });
        }
        source.read_exact_at(&mut prefix, 0)?;
        let json = u64::from_le_bytes(prefix);
        if json > MAX_HEADER.min(size - 8) {
            let reason = format!("the header claims {json} bytes, the file has {size}");
            return Err(FormatError::Safetensors { reason });
        }
        let mut header = prefix.to_vec();
        header.resize(8 + json as usize, 0);
        source.read_exact_at(&mut header[8..], 8)?;
        let Header { mut tensors, metadata } =
            serde_json::from_slice(&header[8..]).map_err(FormatError::safetensors)?;
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let reason = format!("tensor {} occurs twice", pair[0].0);
            return Err(FormatError::Safetensors { reason });
        }
        tensors.sort_by_key(|(_, info)| info.data_offsets);
        check_offsets(&tensors, size - header.len() as u64).map_err(FormatError::safetensors)?;
        Ok(Self { source, turn: Mutex::default(), header, tensors, metadata })
    }

    /// Returns the header as stored in the file, including its length and padding.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// Returns the total number of bytes of all tensors.
    pub fn data_bytes(&self) -> u64 {
        self.tensors.last().map_or(0, |(_, info)| info.data_offsets.1 as u64)
    }

    /// Returns the tensors in the order of their bytes.
    pub fn tensors(&self) -> &[(String, TensorInfo)] {
        &self.tensors
    }

    /// Returns the metadata strings of the header.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Reads the bytes of a tensor of this file.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn bytes(&self, info: &TensorInfo) -> std::io::Result<Vec<u8>> {
        let (from, to) = info.data_offsets;
        let _turn = self.turn();
        let mut bytes = vec![0; to - from];
        self.source.read_exact_at(&mut bytes, self.at(from))?;
        Ok(bytes)
    }

    /// Reads the values of a float tensor of this file.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub fn floats(&self, info: &TensorInfo, float: FloatType) -> std::io::Result<Vec<f32>> {
        let (from, to) = info.data_offsets;
        let _turn = self.turn();
        let mut values = vec![0.0_f32; (to - from) / float.width()];
        if float == FloatType::F32 && cfg!(target_endian = "little") {
            // Avoids a copy by reading directly into the result.
            self.source.read_exact_at(bytemuck::cast_slice_mut(&mut values), self.at(from))?;
            return Ok(values);
        }
        let mut bytes = vec![0; PIECE.min(values.len()) * float.width()];
        for (piece, values) in values.chunks_mut(PIECE).enumerate() {
            let bytes = &mut bytes[..values.len() * float.width()];
            self.source.read_exact_at(bytes, self.at(from + piece * PIECE * float.width()))?;
            float.decode(bytes, values);
        }
        Ok(values)
    }

    /// Locks the source so that one array is read at a time: a disk reads ahead for a single reader,
    /// and meanwhile other threads check what has been read.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at(&self, offset: usize) -> u64 {
        (self.header.len() + offset) as u64
    }
}

/// Checks that tensors cover the data without holes or overlaps, each with as many bytes as its shape
/// requires.
fn check_offsets(tensors: &[(String, TensorInfo)], length: u64) -> Result<(), String> {
    let mut end = 0;
    for (name, info) in tensors {
        let (from, to) = info.data_offsets;
        let elements = info.shape.iter().try_fold(1_usize, |n, &side| n.checked_mul(side));
        let bits = elements.and_then(|elements| elements.checked_mul(info.dtype.bitsize()));
        let bytes = bits.map(|bits| bits.div_ceil(8));
        if from != end || to.checked_sub(from).is_none() || to.checked_sub(from) != bytes {
            return Err(format!("tensor {name} stands at bytes {from} to {to} after {end}"));
        }
        end = to;
    }
    if end as u64 == length {
        Ok(())
    } else {
        Err(format!("{length} bytes of data, the header describes {end}"))
    }
}

struct Header {
    tensors: Vec<(String, TensorInfo)>,
    metadata: BTreeMap<String, String>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a safetensors header")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let (mut tensors, mut metadata) = (Vec::new(), None);
                while let Some(key) = map.next_key::<String>()? {
                    if key != METADATA {
                        tensors.push((key, map.next_value()?));
                    } else if metadata.replace(map.next_value::<Unique<String>>()?.0).is_some() {
                        return Err(A::Error::custom("`__metadata__` occurs twice"));
                    }
                }
                Ok(Header { tensors, metadata: metadata.unwrap_or_default() })
            }
        }

        deserializer.deserialize_map(Fields)
    }
}
