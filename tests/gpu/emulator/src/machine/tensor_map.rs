//! Tensor maps: a tensor in global memory and the box of it that a bulk copy moves (PTX ISA, "Tensors").

use super::global::Global;
use super::shared::Shared;

/// 64-bit words of `CUtensorMap`.
const WORDS: usize = 16;
const MOST_AXES: usize = 5;

/// A tiled tensor map, with its axes from the innermost outwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TensorMap {
    pub address: u64,
    /// Bytes of an element.
    pub element: u64,
    pub sizes: Vec<u64>,
    /// Bytes from one element of an axis to the next.
    pub strides: Vec<u64>,
    pub boxes: Vec<u64>,
    /// Number of 16-byte units that the swizzle permutes within a row: 1 (no swizzle), 2, 4 or 8.
    pub units: u64,
}

impl TensorMap {
    /// Returns `true` if the driver would accept the map (CUDA driver API, `cuTensorMapEncodeTiled`).
    pub(crate) fn is_valid(&self) -> bool {
        let inner = self.boxes.first().map_or(0, |size| size * self.element);
        (1..=MOST_AXES).contains(&self.sizes.len())
            && self.address.is_multiple_of(16)
            && self.sizes.iter().all(|size| (1..=1 << 32).contains(size))
            && self.strides[1..].iter().all(|s| s.is_multiple_of(16) && *s < 1 << 40)
            && self.boxes.iter().all(|size| (1..=256).contains(size))
            && inner.is_multiple_of(16)
            && (self.units == 1 || inner <= 16 * self.units)
    }

    /// Encodes the map as a kernel's parameters hold it, in a format specific to this emulator.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = self.address;
        words[1] = self.element | self.units << 8 | (self.sizes.len() as u64) << 16;
        for (axis, ((size, stride), of_box)) in
            self.sizes.iter().zip(&self.strides).zip(&self.boxes).enumerate()
        {
            words[2 + axis] = *size;
            // Box sizes have nine bits, strides forty.
            words[2 + MOST_AXES + axis] = stride | of_box << 48;
        }
        words
    }

    pub(crate) fn of(bytes: &[u8; 8 * WORDS]) -> Result<Self, String> {
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
            .collect();
        let axes = (words[1] >> 16) as usize;
        if !(1..=MOST_AXES).contains(&axes) {
            return Err("no tensor map is there".into());
        }
        let packed = &words[2 + MOST_AXES..][..axes];
        Ok(Self {
            address: words[0],
            element: words[1] & 0xFF,
            units: words[1] >> 8 & 0xFF,
            sizes: words[2..2 + axes].to_vec(),
            strides: packed.iter().map(|word| word & ((1 << 48) - 1)).collect(),
            boxes: packed.iter().map(|word| word >> 48).collect(),
        })
    }

    /// Returns the size of the box in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.boxes.iter().product::<u64>() as usize * self.element as usize
    }

    /// Returns, for every element of the box at `at`, its address in shared memory (from `shared` on) and in global
    /// memory (`None` outside the tensor).
    fn elements(&self, shared: u64, at: &[i32]) -> Result<Vec<(u64, Option<u64>)>, String> {
        if at.len() != self.sizes.len() {
            return Err(format!("{} coordinates of {} axes", at.len(), self.sizes.len()));
        }
        if !shared.is_multiple_of(if self.units == 1 { 16 } else { 128 }) {
            return Err(format!("a box at byte {shared} of shared memory"));
        }
        let count: u64 = self.boxes.iter().product();
        let place = |number: u64| {
            let linear = shared + number * self.element;
            // The swizzle XORs bits 4 and up with bits 7 and up of the address itself.
            let place = linear ^ (linear >> 7 & (self.units - 1)) << 4;
            let (mut rest, mut address) = (number, Some(self.address));
            for (axis, from) in at.iter().enumerate() {
                let index = i64::from(*from) + (rest % self.boxes[axis]) as i64;
                rest /= self.boxes[axis];
                let inside = (0..self.sizes[axis] as i64).contains(&index);
                address = address
                    .filter(|_| inside)
                    .map(|address| address + index as u64 * self.strides[axis]);
            }
            (place, address)
        };
        Ok((0..count).map(place).collect())
    }

    /// Copies the box to shared memory, with zeros for elements outside the tensor.
    pub(crate) fn load(
        &self,
        at: &[i32],
        shared: &mut Shared,
        to: u64,
        global: &Global,
    ) -> Result<(), String> {
        let element = self.element as usize;
        for (place, address) in self.elements(to, at)? {
            let mut bytes = [0; 8];
            if let Some(address) = address {
                global.read(address, &mut bytes[..element])?;
            }
            shared.end_bulk(place, &bytes[..element])?;
        }
        Ok(())
    }

    /// Copies the box to global memory, except for elements outside the tensor.
    pub(crate) fn store(
        &self,
        at: &[i32],
        shared: &mut Shared,
        from: u64,
        warp: u16,
        global: &Global,
    ) -> Result<(), String> {
        let element = self.element as usize;
        for (place, address) in self.elements(from, at)? {
            let mut bytes = [0; 8];
            shared.read(warp, place, &mut bytes[..element])?;
            if let Some(address) = address {
                global.write(address, &bytes[..element])?;
            }
        }
        Ok(())
    }
}
