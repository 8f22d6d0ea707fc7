//! Downloads a single file, complete and with the right checksum or not at all; an interrupted download resumes
//! where it stopped.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::DatasetError;

/// Published file that can be downloaded.
pub(crate) struct Remote {
    pub(crate) url: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: &'static str,
}

const CHUNK: usize = 1 << 16;

/// Returns the path of `file` in the system cache, downloading it first if it is not there.
pub(crate) fn cached(
    dataset: &'static str,
    folder: &str,
    file: &str,
    remote: &Remote,
) -> Result<PathBuf, DatasetError> {
    let cache = dirs::cache_dir().unwrap_or_else(std::env::temp_dir);
    let folder = cache.join("burn-sparse").join(folder);
    let path = folder.join(file);
    if !path.is_file() {
        remote.fetch(&path).map_err(|reason| {
            let (url, files) = (remote.url.clone(), vec![file.to_string()]);
            DatasetError::Download { dataset, url, reason, folder, files }
        })?;
    }
    Ok(path)
}

impl Remote {
    /// Downloads the file to `path`. A partial download is kept in `path.part`.
    pub(crate) fn fetch(&self, path: &Path) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(text)?;
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        // If two processes download the file at once, the second waits and then finds it. On a file system without
        // locks, the checksum still decides.
        let lock = File::create(path.with_added_extension("lock")).map_err(text)?;
        let _ = lock.lock();
        if path.is_file() {
            return Ok(());
        }
        let there = std::fs::metadata(&part).map_or(0, |found| found.len());
        if there < self.bytes {
            self.receive(&part, there)?;
        }
        let found = sha256(&part).map_err(text)?;
        if found != self.sha256 {
            // Removed because resuming from it would never give the right checksum.
            let _ = std::fs::remove_file(&part);
            return Err(format!("its SHA-256 is {found}, expected {}", self.sha256));
        }
        std::fs::rename(&part, path).map_err(text)
    }

    /// Downloads the bytes from offset `there` on.
    fn receive(&self, part: &Path, there: u64) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        tracing::info!(url = %self.url, from = there, of = self.bytes, "downloading");
        // Offsets are those of the file itself, not of a compressed form of it.
        let request = ureq::get(&self.url).header("Accept-Encoding", "identity");
        let request = match there {
            0 => request,
            from => request.header("Range", format!("bytes={from}-")),
        };
        let mut response = request.call().map_err(|error| error.to_string())?;
        // A server that does not support ranges sends the whole file again.
        let goes_on = response.status().as_u16() == 206;
        let there = if goes_on { there } else { 0 };
        let mut file = OpenOptions::new();
        let file = file.create(true).write(true).append(goes_on).truncate(!goes_on);
        let mut file = file.open(part).map_err(text)?;
        self.copy(response.body_mut().as_reader(), &mut file, there)?;
        file.sync_all().map_err(text)
    }

    /// Copies the rest of the file, logging the progress at every tenth.
    fn copy(&self, mut from: impl Read, to: &mut File, mut there: u64) -> Result<(), String> {
        let mut chunk = vec![0; CHUNK];
        let mut said = there * 10 / self.bytes;
        loop {
            let read = from.read(&mut chunk).map_err(|error| error.to_string())?;
            if read == 0 {
                break;
            }
            there += read as u64;
            if there > self.bytes {
                return Err(format!("it is longer than {} bytes", self.bytes));
            }
            to.write_all(&chunk[..read]).map_err(|error| error.to_string())?;
            let tenths = there * 10 / self.bytes;
            if tenths > said {
                said = tenths;
                tracing::info!("{} % of {} MB", 10 * tenths, self.bytes / 1_000_000);
            }
        }
        match there == self.bytes {
            true => Ok(()),
            false => {
                Err(format!("it stopped at {there} of {} bytes; try again to go on", self.bytes))
            }
        }
    }
}

/// Formats a checksum as lowercase hexadecimal, as publishers write it.
pub(crate) fn hex(checksum: &[u8]) -> String {
    checksum.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(path: &Path) -> std::io::Result<String> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&chunk[..read]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const CONTENT: &[u8] = b"a file of 28 bytes, no more.";
    const SHA256: &str = "1085b299a165c90ea8122b7a5aff3dbe37397172cf3132180fb6fb635a9cd148";

    /// Starts a server that cuts its first response off after `first` bytes and answers later requests, including
    /// ranges, in full. Returns its URL, and the first byte of every request.
    fn server(first: usize) -> (String, mpsc::Receiver<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (sender, begins) = mpsc::channel();
        let url = format!("http://{}/file", listener.local_addr().unwrap());
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let mut from = 0;
                for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                    let line = line.unwrap().to_lowercase();
                    if let Some(range) = line.strip_prefix("range: bytes=") {
                        from = range.trim_end_matches('-').parse().unwrap();
                    }
                    if line.is_empty() {
                        break;
                    }
                }
                // The test may have no use for it.
                let _ = sender.send(from);
                let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
                let to = if number == 0 { first } else { CONTENT.len() };
                // The promised length exceeds the bytes sent where the connection breaks.
                let promised = CONTENT.len() - from;
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {promised}\r\n\r\n");
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(&CONTENT[from..to]).unwrap();
            }
        });
        (url, begins)
    }

    #[test]
    fn a_broken_download_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub").join("file");
        let (url, begins) = server(9);
        let remote = Remote { url, bytes: CONTENT.len() as u64, sha256: SHA256 };
        remote.fetch(&path).unwrap_err();
        assert!(!path.exists());
        let part = folder.path().join("sub").join("file.part");
        assert_eq!(std::fs::read(&part).unwrap(), &CONTENT[..9]);
        remote.fetch(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), CONTENT);
        assert!(!part.exists());
        assert_eq!(begins.try_iter().collect::<Vec<_>>(), [0, 9]);
    }

    #[test]
    fn a_file_with_another_checksum_is_thrown_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (url, _) = server(CONTENT.len());
        let remote = Remote { url, bytes: CONTENT.len() as u64, sha256: "00" };
        let error = remote.fetch(&path).unwrap_err();
        assert!(error.contains("expected 00"), "{error}");
        assert!(!path.exists() && !folder.path().join("file.part").exists());
    }

    #[test]
    fn who_waits_for_another_s_download_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let other = File::create(folder.path().join("file.lock")).unwrap();
        other.lock().unwrap();
        std::thread::scope(|scope| {
            // No server listens on this port.
            let remote = Remote { url: "http://127.0.0.1:9".into(), bytes: 20, sha256: SHA256 };
            let waits = scope.spawn({
                let path = &path;
                move || remote.fetch(path)
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::fs::write(&path, CONTENT).unwrap();
            drop(other);
            waits.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_longer_file_than_promised_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let remote = Remote { url: server(CONTENT.len()).0, bytes: 20, sha256: SHA256 };
        let error = remote.fetch(&folder.path().join("file")).unwrap_err();
        assert!(error.contains("longer than 20 bytes"), "{error}");
    }
}
