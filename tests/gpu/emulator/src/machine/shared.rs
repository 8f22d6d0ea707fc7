//! A block's shared memory, with the last accesses of every byte. These are errors: two warps that access a byte
//! without a barrier between them, at least one of them writing (as `compute-sanitizer --tool racecheck` reports); an
//! access to a byte that an asynchronous copy is still writing; and a `wgmma` that reads a byte without the fence
//! between the proxies.

use super::mbarrier::Awaited;

/// Markers for no warp and for several warps.
const NONE: u16 = u16::MAX;
const MANY: u16 = u16::MAX - 1;

/// The last accesses of a byte.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Number of barriers passed before the last write and before the last read.
    written: u32,
    read: u32,
    writer: u16,
    reader: u16,
    /// Number of the last write among all writes of the block.
    write: u32,
    /// `true` while an asynchronous copy to the byte is in flight.
    pending: bool,
}

#[derive(Debug)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    /// Number of barriers passed.
    pub barriers: u32,
    /// Number of writes so far.
    pub writes: u32,
    /// `true` if warps also synchronize through an `mbarrier` in this memory. Accesses ordered only by one cannot be
    /// distinguished from races, so races are not checked then.
    pub has_mbarriers: bool,
    /// Number of changes of any `mbarrier`.
    pub mbarrier_changes: u64,
    /// Copies in flight whose completion an `mbarrier` tracks.
    pub(super) awaited: Vec<Awaited>,
}

impl Shared {
    pub(crate) fn new(bytes: usize) -> Self {
        let none =
            Mark { written: 0, read: 0, writer: NONE, reader: NONE, write: 0, pending: false };
        // NaN in every floating-point type, like fresh global memory.
        Self {
            bytes: vec![0xFF; bytes],
            marks: vec![none; bytes],
            barriers: 0,
            writes: 0,
            has_mbarriers: false,
            mbarrier_changes: 0,
            awaited: Vec::new(),
        }
    }

    fn range(&self, at: u64, len: usize) -> Result<std::ops::Range<usize>, String> {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        match from.checked_add(len) {
            Some(end) if end <= self.bytes.len() => Ok(from..end),
            _ => Err(format!("{len} bytes of shared memory at {at}: it has {}", self.bytes.len())),
        }
    }

    fn race(&self, at: usize, warp: u16, what: &str) -> String {
        let Mark { writer, reader, pending, .. } = self.marks[at];
        let name = |warp| match warp {
            NONE => "nobody".to_string(),
            MANY => "several warps".to_string(),
            warp => format!("warp {warp}"),
        };
        let under_way = if pending { ", an asynchronous copy is still under way" } else { "" };
        format!(
            "warp {warp} {what} byte {at} of shared memory without a barrier: last written by {}, read by \
             {}{under_way}",
            name(writer),
            name(reader)
        )
    }

    pub(crate) fn read(&mut self, warp: u16, at: u64, to: &mut [u8]) -> Result<(), String> {
        let range = self.range(at, to.len())?;
        for at in range.clone() {
            let barriers = self.barriers;
            let mark = &mut self.marks[at];
            let written_now =
                mark.writer != NONE && mark.written == barriers && mark.writer != warp;
            if mark.pending || (written_now && !self.has_mbarriers) {
                return Err(self.race(at, warp, "reads"));
            }
            let read_now = mark.read == barriers && mark.reader != NONE && mark.reader != warp;
            mark.reader = if read_now { MANY } else { warp };
            mark.read = barriers;
        }
        to.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    /// Reads as tensor cores do: the last writer of a byte must have passed a proxy fence since. `fences` holds, for
    /// each warp, the number of writes when it passed its last proxy fence.
    pub(crate) fn read_by_proxy(
        &mut self,
        warp: u16,
        at: u64,
        to: &mut [u8],
        fences: &[u32],
    ) -> Result<(), String> {
        for at in self.range(at, to.len())? {
            let Mark { writer, write, .. } = self.marks[at];
            if fences.get(usize::from(writer)).is_some_and(|fence| *fence < write) {
                return Err(format!(
                    "wgmma reads byte {at} of shared memory, which warp {writer} has written since its \
                     last fence.proxy.async"
                ));
            }
        }
        self.read(warp, at, to)
    }

    fn mark_written(&mut self, warp: u16, at: usize, pending: bool) -> Result<(), String> {
        let (barriers, write) = (self.barriers, self.writes);
        let mark = &mut self.marks[at];
        let read_now = mark.reader != NONE && mark.read == barriers && mark.reader != warp;
        let written_now = mark.writer != NONE && mark.written == barriers && mark.writer != warp;
        if mark.pending || ((read_now || written_now) && !self.has_mbarriers) {
            return Err(self.race(at, warp, "writes"));
        }
        *mark = Mark { written: barriers, writer: warp, write, pending, ..*mark };
        Ok(())
    }

    pub(crate) fn write(&mut self, warp: u16, at: u64, from: &[u8]) -> Result<(), String> {
        self.writes += 1;
        for at in self.range(at, from.len())? {
            self.mark_written(warp, at, false)?;
        }
        let range = self.range(at, from.len())?;
        self.bytes[range].copy_from_slice(from);
        Ok(())
    }

    /// Begins an asynchronous copy: no warp may access these bytes until it ends.
    pub(crate) fn begin_copy(&mut self, warp: u16, at: u64, len: usize) -> Result<(), String> {
        self.writes += 1;
        for at in self.range(at, len)? {
            self.mark_written(warp, at, true)?;
        }
        Ok(())
    }

    /// Ends an asynchronous copy, as late as permitted: when its thread has waited for it.
    pub(crate) fn end_copy(&mut self, warp: u16, at: u64, from: &[u8]) -> Result<(), String> {
        self.writes += 1;
        let (barriers, write) = (self.barriers, self.writes);
        let range = self.range(at, from.len())?;
        for mark in &mut self.marks[range.clone()] {
            *mark = Mark { written: barriers, writer: warp, write, pending: false, ..*mark };
        }
        self.bytes[range].copy_from_slice(from);
        Ok(())
    }

    /// Delivers a part of a bulk copy through the proxy that tensor cores read through.
    pub(super) fn end_bulk(&mut self, at: u64, from: &[u8]) -> Result<(), String> {
        self.end_copy(NONE, at, from)
    }

    /// Reads and writes atomically; concurrent atomic operations are not races.
    pub(crate) fn update(
        &mut self,
        at: u64,
        len: usize,
        f: impl FnOnce(&mut [u8]),
    ) -> Result<(), String> {
        let range = self.range(at, len)?;
        f(&mut self.bytes[range]);
        Ok(())
    }
}
