//! Fuzz targets: any bytes must be refused, or survive a round trip of reading and writing unchanged.

use burn_sparse::pattern::format::{Entry, PackedEntry, PackedFile};
use burn_sparse_run::recipe::Recipe;

/// Largest number of weights in a matrix that is unpacked for the comparison.
const UNPACKED: usize = 1 << 16;

/// Fuzzes the checkpoint reader.
///
/// # Panics
/// Panics if an accepted file does not survive a round trip, or a mask violates its pattern.
pub fn packed_file(bytes: &[u8]) {
    let Ok(file) = PackedFile::read(bytes) else { return };
    let written = file.to_bytes().expect("what was read can be written");
    let again = PackedFile::read(written.as_slice()).expect("what was written can be read");
    assert_eq!(file.metadata, again.metadata);
    assert!(file.entries.keys().eq(again.entries.keys()), "other parameters the second time");
    for (entry, again) in file.entries.values().zip(again.entries.values()) {
        assert_eq!((entry.layer(), entry.shape()), (again.layer(), again.shape()));
        assert_eq!(entry.value_type(), again.value_type());
        match (entry, again) {
            (
                Entry::Dense { values, scales, .. },
                Entry::Dense { values: again, scales: scales_again, .. },
            ) => {
                assert!(bits(values).eq(bits(again)), "other values the second time");
                assert_eq!(scales, scales_again);
            }
            (Entry::Packed(entry), Entry::Packed(again)) => {
                assert!(bits(entry.packed.values()).eq(bits(again.packed.values())));
                assert_eq!(entry.scales, again.scales);
                assert_eq!(entry.packed.mask_hash(), again.packed.mask_hash());
                assert_eq!(entry.packed.row_order(), again.packed.row_order());
                assert_eq!((&entry.view, entry.pattern), (&again.view, again.pattern));
                check_mask(entry);
            }
            _ => panic!("packed once, dense once"),
        }
    }
}

/// Returns the bits of the values, so that NaN equals itself.
fn bits(values: &[f32]) -> impl Iterator<Item = u32> + '_ {
    values.iter().map(|value| value.to_bits())
}

fn check_mask(entry: &PackedEntry) {
    let packed = &entry.packed;
    if packed.rows() * packed.cols() <= UNPACKED {
        let mask = packed.mask();
        entry.pattern.check(&mask, packed.row_order()).expect("its own pattern");
        assert_eq!(mask.hash(), packed.mask_hash());
        assert_eq!(mask.kept(), packed.kept());
        assert_eq!(packed.unpack().len(), mask.rows() * mask.cols());
    }
}

/// Fuzzes the recipe parser.
///
/// # Panics
/// Panics if an accepted recipe does not survive a round trip.
pub fn recipe(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(recipe) = text.parse::<Recipe>() else { return };
    let again: Recipe = recipe.to_toml().parse().expect("what was written can be read");
    assert_eq!(again, recipe);
}
