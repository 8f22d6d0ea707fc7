/// Grey images of equal size with labels, pixels from 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// `[count, height · width]`.
    pub pixels: Vec<f32>,
    /// The class of each image.
    pub labels: Vec<u8>,
    /// Pixels of an image.
    pub size: usize,
}

impl Images {
    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The pixels of one image.
    pub fn image(&self, index: usize) -> &[f32] {
        &self.pixels[index * self.size..(index + 1) * self.size]
    }
}

/// Training and test images.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageSet {
    /// What is trained on.
    pub train: Images,
    /// What is tested on.
    pub test: Images,
}
