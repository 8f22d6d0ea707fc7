/// Labeled color images of equal size, with one byte per channel of a pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteImages {
    /// Pixels of all images, `[count, channels, height, width]`.
    pub pixels: Vec<u8>,
    /// Class of each image.
    pub labels: Vec<u8>,
    /// Shape of an image: channels, height, width.
    pub shape: [usize; 3],
}

impl ByteImages {
    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns `true` if there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns one image, `[channels, height, width]`.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape.iter().product::<usize>();
        &self.pixels[index * size..(index + 1) * size]
    }
}

/// Training and test images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteImageSet {
    /// Training images.
    pub train: ByteImages,
    /// Test images.
    pub test: ByteImages,
}
