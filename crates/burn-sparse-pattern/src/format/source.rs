use std::fs::File;
use std::io;

/// Bytes with random access, readable by several threads at once.
pub trait Source: Sync {
    /// Returns the number of bytes.
    ///
    /// # Errors
    /// Returns an I/O error if the size cannot be determined.
    fn size(&self) -> io::Result<u64>;

    /// Fills `into` with the bytes that start at `offset`.
    ///
    /// # Errors
    /// Returns an I/O error if reading fails, or the source ends too early.
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()>;
}

impl Source for &[u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let from = usize::try_from(offset).ok().and_then(|from| self.get(from..));
        match from.and_then(|rest| rest.get(..into.len())) {
            Some(bytes) => into.copy_from_slice(bytes),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
}

impl Source for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, into, offset)
    }

    #[cfg(windows)]
    fn read_exact_at(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !into.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(self, into, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    offset += read as u64;
                    into = &mut into[read..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    #[cfg(not(any(unix, windows)))]
    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        use std::sync::{Mutex, PoisonError};

        // The position of a file is shared by all its readers.
        static POSITION: Mutex<()> = Mutex::new(());
        let _held = POSITION.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(into)
    }
}
