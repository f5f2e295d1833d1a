//! `psmc-manual`: manual pages and completions of the other programs, for their packages.
//!
//! Both are made from the definitions of their command lines, which are what `--help` prints, too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Command, Parser, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use psmc_service::cli;

/// A program of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Program {
    Psmc,
    PsmcCoordinator,
    PsmcDemo,
    PsmcDns,
    PsmcFetch,
    PsmcFront,
    PsmcGuard,
    PsmcLab,
    PsmcRelay,
    PsmcShed,
    Psmcd,
}

/// Write manual pages, and completions for bash, zsh and fish
///
/// They are written where they are looked for below a directory such as /usr/local/share.
#[derive(Debug, Parser)]
#[command(name = "psmc-manual", version)]
struct Args {
    /// The directory that becomes, or is, a `share`
    #[arg(value_name = "DIRECTORY")]
    share: PathBuf,
    /// The programs whose they are
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<Program>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", file.display())]
struct WriteError {
    file: PathBuf,
    source: io::Error,
}

/// Runs `psmc-manual` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    cli::finish("error", args.programs.iter().try_for_each(|program| program.write(&args.share)))
}

impl Program {
    fn command(self) -> Command {
        match self {
            Self::Psmc => psmc_tool::cli::command(),
            Self::PsmcCoordinator => psmc_coordinator::cli::command(),
            Self::PsmcDemo => psmc_demo::cli::command(),
            Self::PsmcDns => psmc_dns::cli::command(),
            Self::PsmcFetch => psmc_fetch::cli::command(),
            Self::PsmcFront => psmc_front::cli::command(),
            Self::PsmcGuard => psmc_guard::cli::command(),
            Self::PsmcLab => psmc_lab::cli::command(),
            Self::PsmcRelay => psmc_relay::cli::command(),
            Self::PsmcShed => psmc_shed::cli::command(),
            Self::Psmcd => psmcd::program::command(),
        }
    }

    /// The section of the manual (man(1)): 1 is what people type, 8 is daemons.
    fn section(self) -> char {
        match self {
            Self::Psmc | Self::PsmcDemo | Self::PsmcFetch | Self::PsmcLab => '1',
            Self::PsmcCoordinator
            | Self::PsmcDns
            | Self::PsmcFront
            | Self::PsmcGuard
            | Self::PsmcRelay
            | Self::PsmcShed
            | Self::Psmcd => '8',
        }
    }

    /// The programs that are commands of this one, under other names.
    fn commands(self) -> &'static [(&'static str, Self)] {
        if self == Self::Psmc { &[("fetch", Self::PsmcFetch), ("demo", Self::PsmcDemo)] } else { &[] }
    }

    fn write(self, share: &Path) -> Result<(), WriteError> {
        let manual = share.join(format!("man/man{}", self.section()));
        for (name, page) in self.pages() {
            write(manual.join(name), &page)?;
        }
        for (shell, file) in self.completions() {
            let mut completion = Vec::new();
            let mut command = self.with_its_programs();
            let name = command.get_name().to_owned();
            clap_complete::generate(shell, &mut command, name, &mut completion);
            write(share.join(file), &completion)?;
        }
        Ok(())
    }

    /// The pages of the program and all its commands, with the names of their files.
    fn pages(self) -> Vec<(String, Vec<u8>)> {
        let mut command = self.command().disable_help_subcommand(true);
        command.build();
        let is_program = |name: &str| self.commands().iter().any(|(program, _)| *program == name);
        let mut waiting: Vec<Command> =
            command.get_subcommands().filter(|command| !is_program(command.get_name())).cloned().collect();
        let mut pages = vec![self.page(command)];
        while let Some(command) = waiting.pop() {
            waiting.extend(command.get_subcommands().cloned());
            if !command.is_hide_set() {
                pages.push(self.page(command));
            }
        }
        pages
    }

    fn page(self, command: Command) -> (String, Vec<u8>) {
        let page = Man::new(command).section(self.section()).source(SOURCE).manual("PSMC");
        let mut text = Vec::new();
        // Writing to memory does not fail.
        let _ = page.render(&mut text);
        (page.get_filename(), text)
    }

    /// What completes the program in which shell, and where below `share` that looks for it.
    fn completions(self) -> [(Shell, String); 3] {
        let command = self.command();
        let name = command.get_name();
        [
            (Shell::Bash, format!("bash-completion/completions/{name}")),
            (Shell::Zsh, format!("zsh/site-functions/_{name}")),
            (Shell::Fish, format!("fish/vendor_completions.d/{name}.fish")),
        ]
    }

    /// The command, with those of [`Self::commands`] in full.
    fn with_its_programs(self) -> Command {
        self.commands().iter().fold(self.command(), |command, (name, program)| {
            command.mut_subcommand(name, |_| program.command().name(*name))
        })
    }
}

/// What the foot of a page says.
const SOURCE: &str = concat!("psmc ", env!("CARGO_PKG_VERSION"));

fn write(file: PathBuf, text: &[u8]) -> Result<(), WriteError> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file, text))
        .map_err(|source| WriteError { file, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_page_and_completions() {
        let share = tempfile::tempdir().unwrap();
        for program in Program::value_variants() {
            program.write(share.path()).unwrap();
            let command = program.command();
            let (name, section) = (command.get_name(), program.section());
            let page = format!("man/man{section}/{name}.{section}");
            let completions = program.completions().map(|(_, file)| file);
            for file in completions.iter().chain([&page]) {
                assert!(fs::read_to_string(share.path().join(file)).unwrap().contains(name), "{file}");
            }
        }
    }

    #[test]
    fn commands_have_pages_unless_they_are_programs() {
        let names: Vec<String> = Program::Psmc.pages().into_iter().map(|(name, _)| name).collect();
        for page in ["psmc.1", "psmc-join.1", "psmc-dns-reroute-publish.1"] {
            assert!(names.contains(&page.to_owned()), "{page}: {names:?}");
        }
        for page in ["psmc-fetch.1", "psmc-demo.1"] {
            assert!(!names.contains(&page.to_owned()), "{page}");
        }
        let pages = Program::PsmcDemo.pages();
        assert_eq!(pages.len(), 1, "the programs within are hidden");
    }

    #[test]
    fn programs_that_are_commands_are_completed_in_full() {
        let mut command = Program::Psmc.with_its_programs();
        command.build();
        let fetch = command.find_subcommand("fetch").unwrap();
        assert!(fetch.get_arguments().any(|argument| argument.get_long() == Some("sha256")));
    }
}
