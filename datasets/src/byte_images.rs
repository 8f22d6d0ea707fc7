/// Colour images of equal size with labels, a byte for each channel of a pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteImages {
    /// `[count, channels, height, width]`.
    pub pixels: Vec<u8>,
    /// The class of each image.
    pub labels: Vec<u8>,
    /// Channels, height, width.
    pub shape: [usize; 3],
}

impl ByteImages {
    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// One image, `[channels, height, width]`.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape.iter().product::<usize>();
        &self.pixels[index * size..(index + 1) * size]
    }
}

/// Training and test images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteImageSet {
    /// What is trained on.
    pub train: ByteImages,
    /// What is tested on.
    pub test: ByteImages,
}
