use crate::kernel_name::OnDevice;

/// Options of a product that are otherwise left to the backend.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Dispatch {
    pub(crate) kernel: Option<OnDevice>,
    /// `true` if the output may be feature-major in memory.
    pub(crate) features_major: bool,
}

impl Dispatch {
    pub(crate) fn by(kernel: OnDevice) -> Self {
        Self { kernel: Some(kernel), features_major: false }
    }
}
