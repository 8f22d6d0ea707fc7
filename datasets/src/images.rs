/// Labeled grayscale images of equal size, with pixels from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// Pixels of all images, `[count, height · width]`.
    pub pixels: Vec<f32>,
    /// Class of each image.
    pub labels: Vec<u8>,
    /// Number of pixels per image.
    pub size: usize,
}

impl Images {
    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns `true` if there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the pixels of one image.
    pub fn image(&self, index: usize) -> &[f32] {
        &self.pixels[index * self.size..(index + 1) * self.size]
    }
}

/// Training and test images.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSet {
    /// Training images.
    pub train: Images,
    /// Test images.
    pub test: Images,
}
