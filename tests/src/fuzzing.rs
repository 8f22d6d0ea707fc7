//! What any bytes must do: be refused, or mean the same after being written again.

use burn_sparse::pattern::format::{Entry, PackedFile};
use burn_sparse::recipe::Recipe;

/// Weights of a matrix that is unpacked to be compared.
const UNPACKED: usize = 1 << 16;

/// The reader of checkpoints.
///
/// # Panics
/// When an accepted file is not written as it was read, or a mask breaks its pattern.
pub fn packed_file(bytes: &[u8]) {
    let Ok(file) = PackedFile::read(bytes) else { return };
    let written = file.to_bytes().expect("what was read can be written");
    let again = PackedFile::read(written.as_slice()).expect("what was written can be read");
    assert!(again.to_bytes().expect("as before") == written, "written otherwise the second time");
    for entry in file.entries.values() {
        if let Entry::Packed(entry) = entry
            && entry.packed.rows() * entry.packed.cols() <= UNPACKED
        {
            let mask = entry.packed.mask();
            entry.pattern.check(&mask, entry.packed.row_order()).expect("its own pattern");
            assert_eq!(mask.hash(), entry.packed.mask_hash());
            assert_eq!(entry.packed.unpack().len(), mask.rows() * mask.cols());
        }
    }
}

/// The parser of recipes.
///
/// # Panics
/// When an accepted recipe is not read back as it was.
pub fn recipe(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(recipe) = text.parse::<Recipe>() else { return };
    let again: Recipe = recipe.to_toml().parse().expect("what was written can be read");
    assert_eq!(again, recipe);
}
