//! `search-page MODEL`: builds a page that searches sentences by meaning, with a packed model in WebAssembly.

#[cfg(not(target_family = "wasm"))]
mod page;

#[cfg(not(target_family = "wasm"))]
fn main() -> std::process::ExitCode {
    use clap::Parser;
    match page::build(&page::Options::parse()) {
        Ok(report) => {
            println!("{report}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(target_family = "wasm")]
fn main() {}
