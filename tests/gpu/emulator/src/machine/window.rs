//! State spaces, and the resolution of generic addresses to them.

/// A state space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Param,
}

/// Generic address of the first byte of shared memory. Larger than any pointer of the host.
pub(crate) const SHARED: u64 = 1 << 56;
/// Generic address of the first byte of a thread's local memory.
pub(crate) const LOCAL: u64 = 1 << 57;
/// Generic address of a kernel's first parameter.
pub(crate) const PARAM: u64 = 1 << 58;

impl Space {
    /// Returns the space that an opcode names. Constants are in global memory here.
    pub(crate) fn of(parts: &[&str]) -> Self {
        let named = |part: &&str| match part.split("::").next() {
            Some("global" | "const") => Some(Self::Global),
            Some("shared") => Some(Self::Shared),
            Some("local") => Some(Self::Local),
            Some("param") => Some(Self::Param),
            _ => None,
        };
        parts.iter().find_map(named).unwrap_or(Self::Generic)
    }

    /// Resolves an address of this space to the actual space and the address in it.
    pub(crate) fn find(self, address: u64) -> (Self, u64) {
        match self {
            Self::Generic if address & LOCAL != 0 => (Self::Local, address ^ LOCAL),
            Self::Generic if address & SHARED != 0 => (Self::Shared, address ^ SHARED),
            Self::Generic | Self::Param if address & PARAM != 0 => (Self::Param, address ^ PARAM),
            Self::Generic => (Self::Global, address),
            space => (space, address),
        }
    }
}
