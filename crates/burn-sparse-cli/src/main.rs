//! The `burn-sparse` command.

mod args;
mod cli;
mod commands;
mod costs;
mod device;
mod failpoint;
mod failure;
mod memory;
mod output;
mod ranks;
mod recipes;

use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use args::BadUsage;
use cli::{Arguments, Command};

fn main() -> ExitCode {
    memory::keep_between_steps();
    // Exits here on bad usage, with clap's message and status 2.
    let arguments = Arguments::try_parse().unwrap_or_else(|error| {
        if ranks::rank() > 0 {
            // Rank 0 prints it before the launcher ends all ranks because one has ended.
            std::thread::sleep(Duration::from_secs(1));
            std::process::exit(error.exit_code());
        }
        error.exit()
    });
    // Burn reads an optimizer's state back on its default device, then moves it to the device of the weights. The
    // default is CUDA in a build with it, whether there is a GPU or not: the CPU always exists.
    if std::env::var_os("BURN_DEVICE").is_none() {
        // SAFETY: nothing has started a thread yet.
        unsafe { std::env::set_var("BURN_DEVICE", "flex") };
    }
    // Only rank 0 prints warnings; the others would repeat them.
    let progress = "warn,burn_sparse_datasets=info,burn_sparse_models=info,burn_sparse_run=info";
    let filter = if ranks::rank() > 0 { "error" } else { progress };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(filter));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let result = match arguments.command {
        Command::Train(arguments) => commands::train(&arguments),
        Command::Plan(arguments) => commands::plan(&arguments),
        Command::Eval(arguments) => commands::eval(&arguments),
        Command::Embed(arguments) => commands::embed(&arguments),
        Command::Generate(arguments) => commands::generate(&arguments),
        Command::Prune(arguments) => commands::prune(&arguments),
        Command::Export(arguments) => commands::export(&arguments),
        Command::Import(arguments) => commands::import(&arguments),
        Command::Inspect(arguments) => commands::inspect(&arguments),
        Command::Bench(arguments) => commands::bench(&arguments),
        Command::Sweep(arguments) => commands::sweep(&arguments),
        Command::Report(arguments) => commands::report(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has seen enough, as in `burn-sparse plan | head`.
        Err(error) if output::is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        #[cfg(feature = "mpi")]
        Err(error) if error.is::<failure::Reported>() => ExitCode::FAILURE,
        Err(error) if error.is::<BadUsage>() => {
            let mut command = Arguments::command();
            command.build();
            let name = std::env::args().nth(1).unwrap_or_default();
            match command.find_subcommand_mut(&name) {
                Some(of) => of.error(ErrorKind::ArgumentConflict, error).exit(),
                None => command.error(ErrorKind::ArgumentConflict, error).exit(),
            }
        }
        Err(error) => {
            output::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
