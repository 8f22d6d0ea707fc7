use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Usual augmentation of small images: four pixels of padding on every side, a crop of the original size anywhere in
/// the padded image, mirrored or not (Lee et al., 2015; He et al., 2016, section 4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crop {
    /// Pixels by which the image moves up and to the left, before mirroring; negative for down and to the right.
    shift: [isize; 2],
    mirrored: bool,
}

const PADDING: i32 = 4;

impl Crop {
    /// Crop that leaves the image unchanged.
    pub(crate) const NONE: Self = Self { shift: [0, 0], mirrored: false };

    pub(crate) fn draw(random: &mut ChaCha8Rng) -> Self {
        let shift = [0, 1].map(|_| random.random_range(-PADDING..=PADDING) as isize);
        Self { shift, mirrored: random.random_bool(0.5) }
    }

    /// Returns the cropped pixels of a plane of this height and width; pixels outside the plane are zero.
    pub(crate) fn of(
        self,
        plane: &[u8],
        [height, width]: [usize; 2],
    ) -> impl Iterator<Item = u8> + '_ {
        (0..height * width).map(move |at| {
            let (y, x) = (at / width, at % width);
            let x = if self.mirrored { width - 1 - x } else { x };
            let y = y.checked_add_signed(self.shift[0]).filter(|&y| y < height);
            let x = x.checked_add_signed(self.shift[1]).filter(|&x| x < width);
            y.zip(x).map_or(0, |(y, x)| plane[y * width + x])
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const PLANE: [u8; 6] = [1, 2, 3, 4, 5, 6];

    fn cropped(shift: [isize; 2], mirrored: bool) -> Vec<u8> {
        Crop { shift, mirrored }.of(&PLANE, [2, 3]).collect()
    }

    #[test]
    fn a_crop_moves_and_mirrors_and_is_black_outside() {
        assert_eq!(Crop::NONE.of(&PLANE, [2, 3]).collect::<Vec<_>>(), PLANE);
        assert_eq!(cropped([0, 0], true), [3, 2, 1, 6, 5, 4]);
        assert_eq!(cropped([1, -1], false), [0, 4, 5, 0, 0, 0]);
        assert_eq!(cropped([0, 1], true), [0, 3, 2, 0, 6, 5]);
        assert_eq!(cropped([0, 4], false), [0; 6]);
    }

    #[test]
    fn crops_reach_every_shift_and_both_sides() {
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let crops: Vec<Crop> = (0..2000).map(|_| Crop::draw(&mut random)).collect();
        for axis in [0, 1] {
            let mut shifts: Vec<isize> = crops.iter().map(|crop| crop.shift[axis]).collect();
            shifts.sort_unstable();
            shifts.dedup();
            assert_eq!(shifts, [-4, -3, -2, -1, 0, 1, 2, 3, 4]);
        }
        let mirrored = crops.iter().filter(|crop| crop.mirrored).count();
        assert!((900..1100).contains(&mirrored), "{mirrored}");
    }
}
