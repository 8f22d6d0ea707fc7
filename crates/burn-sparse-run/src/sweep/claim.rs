//! Claims: of several processes that share the folder of a sweep, one trains each run, on file systems without locks too.
//!
//! A claim is a file that only one process can create, `.claims/RUN/N`. Its holder rewrites it for as long as it lives. A
//! claim whose content does not change for a lease has been abandoned, and whoever creates `N + 1` takes the run over.
//! Clocks of different processes are never compared.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the holder of a claim may be silent.
pub(super) const LEASE: Duration = Duration::from_secs(60);

/// Claims on a run, watched by a process that wants to train it.
pub(super) struct Claims {
    folder: PathBuf,
    lease: Duration,
    /// The newest claim of another process, and the time since which it has not changed.
    seen: Option<(u64, Vec<u8>, Instant)>,
}

/// Claim that this process holds until it is dropped.
pub(super) struct Claim {
    folder: PathBuf,
    number: u64,
    lost: Arc<AtomicBool>,
    /// Dropped to end the thread that renews the claim.
    renewing: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Claims {
    pub(super) fn new(sweep: &Path, run: &str, lease: Duration) -> Self {
        Self { folder: sweep.join(".claims").join(run), lease, seen: None }
    }

    /// Claims the run, or returns `None` while another process holds it.
    pub(super) fn attempt(&mut self) -> io::Result<Option<Claim>> {
        fs::create_dir_all(&self.folder)?;
        let number = match newest(&self.folder)? {
            None => 1,
            Some((number, content)) => match &self.seen {
                Some((seen, unchanged, since)) if (*seen, unchanged) == (number, &content) => {
                    if since.elapsed() < self.lease {
                        return Ok(None);
                    }
                    number + 1
                }
                _ => {
                    self.seen = Some((number, content, Instant::now()));
                    return Ok(None);
                }
            },
        };
        let path = self.folder.join(number.to_string());
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(mut file) => {
                let name = format!("{} {:?}\n", std::process::id(), std::time::SystemTime::now());
                file.write_all(name.as_bytes())?;
                Claim::hold(self.folder.clone(), number, name, self.lease / 6).map(Some)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the newest claim and its content.
fn newest(folder: &Path) -> io::Result<Option<(u64, Vec<u8>)>> {
    let numbers = numbers(folder)?;
    let Some(number) = numbers.into_iter().max() else { return Ok(None) };
    match fs::read(folder.join(number.to_string())) {
        Ok(content) => Ok(Some((number, content))),
        // Its holder has finished.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    Ok(numbers)
}

/// Writes to a file that exists.
fn renewed(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())
}

impl Claim {
    /// Renews a claim, until it is dropped or taken over.
    fn hold(folder: PathBuf, number: u64, name: String, every: Duration) -> io::Result<Self> {
        let lost = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = mpsc::channel::<()>();
        let (at, taken) = (folder.clone(), lost.clone());
        let renew = move || {
            let (path, mut times) = (at.join(number.to_string()), 0_u64);
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                times += 1;
                if numbers(&at).is_ok_and(|numbers| numbers.iter().any(|other| *other > number)) {
                    taken.store(true, Ordering::Release);
                    return;
                }
                // A failed renewal is retried; a lease lasts for several renewals.
                match renewed(&path, &format!("{name}{times}\n")) {
                    // Whoever took the run over has finished it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        taken.store(true, Ordering::Release);
                        return;
                    }
                    _ => {}
                }
            }
        };
        let thread = std::thread::Builder::new().name("claim".into()).spawn(renew)?;
        Ok(Self { folder, number, lost, renewing: Some((stop, thread)) })
    }

    /// Returns `true` if another process has taken the run over, because this one was silent for a lease.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.renewing.take() {
            drop(stop);
            let _ = thread.join();
        }
        // Also removes earlier, abandoned claims; keeps one that took over.
        for number in numbers(&self.folder).unwrap_or_default() {
            if number <= self.number {
                let _ = fs::remove_file(self.folder.join(number.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a thread has to wait on a busy machine.
    const SHORT: Duration = Duration::from_secs(1);

    fn claims(folder: &Path) -> Claims {
        Claims::new(folder, "pattern/seed-0", SHORT)
    }

    /// Tries for several leases.
    fn patient(claims: &mut Claims) -> Option<Claim> {
        let started = Instant::now();
        while started.elapsed() < 3 * SHORT {
            if let Some(claim) = claims.attempt().unwrap() {
                return Some(claim);
            }
            std::thread::sleep(SHORT / 50);
        }
        None
    }

    #[test]
    fn of_many_that_try_at_once_one_holds_the_claim_until_it_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let attempts: Vec<_> = std::thread::scope(|scope| {
                let attempt = || claims(folder.path()).attempt().unwrap();
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(attempt)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(attempts.iter().flatten().count(), 1);
        }
    }

    #[test]
    fn a_claim_that_is_renewed_outlives_many_leases() {
        let folder = tempfile::tempdir().unwrap();
        let held = claims(folder.path()).attempt().unwrap().unwrap();
        assert!(patient(&mut claims(folder.path())).is_none());
        assert!(!held.is_lost());
        drop(held);
        assert!(claims(folder.path()).attempt().unwrap().is_some());
    }

    #[test]
    fn an_abandoned_claim_is_taken_over_by_one_of_many() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(".claims/pattern/seed-0");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("7"), "killed").unwrap();
        assert!(claims(folder.path()).attempt().unwrap().is_none(), "before a lease has passed");
        let held = std::thread::scope(|scope| {
            let take = || patient(&mut claims(folder.path()));
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            let held: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            held.into_iter().flatten().collect::<Vec<_>>()
        });
        assert_eq!(held.iter().map(|claim| claim.number).collect::<Vec<_>>(), [8]);
        drop(held);
        assert_eq!(fs::read_dir(place).unwrap().count(), 0);
    }

    #[test]
    fn a_holder_that_was_silent_learns_that_it_lost_its_claim() {
        let folder = tempfile::tempdir().unwrap();
        let held = claims(folder.path()).attempt().unwrap().unwrap();
        // Another process that saw no change for a lease creates the next claim.
        let place = folder.path().join(".claims/pattern/seed-0");
        fs::write(place.join("2"), "another").unwrap();
        let started = Instant::now();
        while !held.is_lost() && started.elapsed() < 20 * SHORT {
            std::thread::sleep(SHORT / 50);
        }
        assert!(held.is_lost());
        drop(held);
        assert_eq!(fs::read(place.join("2")).unwrap(), b"another");
        assert!(!place.join("1").exists());
    }
}
