//! `psmc-front plan`: which ratios can be held, and what each class would see, from what is given or from what a front measures.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

use psmc_service::cli::CliError;
use psmc_service::socket::{Client, StatusOf};
use psmc_service::units::duration_ms;
use psmc_shares::plan::{Demand, Plan, PlanError, plan};
use thiserror::Error;

use crate::config::{Config, Limit};
use crate::status::{ClassStatus, Status};

/// The arguments of `plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    /// The configuration.
    file: PathBuf,
    /// Requests per second of a class; of others the running front is asked, for five seconds.
    #[arg(long, value_name = "CLASS=RATE")]
    arrivals: Vec<Given>,
    /// How many milliseconds servers take for a request of a class on average; of others the running front is asked.
    #[arg(long, value_name = "CLASS=MS")]
    service: Vec<Given>,
    /// Requests that all servers take at a time [default: the limits of the file, or what the running front has found].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    places: Option<u32>,
}

/// `NAME=NUMBER`.
#[derive(Clone, Debug, PartialEq)]
struct Given {
    class: String,
    number: f64,
}

/// It is neither a name nor a number.
#[derive(Debug, Error)]
#[error("write the name of a class, an equals sign and a number, such as paying=40")]
struct NotGiven;

impl FromStr for Given {
    type Err = NotGiven;

    fn from_str(text: &str) -> Result<Self, NotGiven> {
        let (class, number) = text.split_once('=').ok_or(NotGiven)?;
        Ok(Self { class: class.to_owned(), number: number.parse().map_err(|_| NotGiven)? })
    }
}

/// Why there is no plan.
#[derive(Debug, Error)]
enum Unplanned {
    #[error("there is no class {class}; there are {}", known.join(", "))]
    UnknownClass { class: String, known: Vec<String> },
    #[error(
        "the running front has measured no request of class {0}: give --service {0}=MS and --arrivals {0}=RATE"
    )]
    Unmeasured(String),
    #[error("the numbers of class {0} are none that can be")]
    Number(String),
    #[error(transparent)]
    Nothing(PlanError),
}

/// How long arrivals are counted: some hundred requests of a server that is worth a plan.
const COUNTED: Duration = Duration::from_secs(5);

impl PlanArgs {
    /// The plan, for people.
    pub(crate) fn run(&self) -> Result<String, CliError> {
        let config = Config::load(&self.file)?;
        let known: Vec<String> = config.classes.iter().map(|class| class.name.to_string()).collect();
        for Given { class, .. } in self.arrivals.iter().chain(&self.service) {
            if !known.contains(class) {
                return Err(CliError::program(Unplanned::UnknownClass { class: class.clone(), known }));
            }
        }
        let given = |all: &[Given], class: &str| {
            all.iter().find(|given| given.class == class).map(|given| given.number)
        };
        let is_given =
            |class: &String| given(&self.arrivals, class).and(given(&self.service, class)).is_some();
        let places = self.places.or(match config.upstream.limit {
            Limit::Fixed(limit) => {
                limit.checked_mul(u32::try_from(config.upstream.servers.len()).unwrap_or(1))
            }
            Limit::Adaptive => None,
        });
        let measured =
            if places.is_some() && known.iter().all(is_given) { None } else { Some(Measured::now(&config)?) };
        let of = |class: &str| measured.as_ref().and_then(|measured| measured.of(class));
        let demands = config.classes.iter().zip(&known).map(|(class, name)| {
            let arrivals = given(&self.arrivals, name).or_else(|| of(name).map(|(arrivals, _)| arrivals));
            // Nobody waits for a class of which nothing comes.
            let service = given(&self.service, name).map(|ms| ms / 1e3);
            let service = service.or_else(|| of(name).and_then(|(_, service)| service));
            match (arrivals, service.or(arrivals.filter(|rate| *rate == 0.0).map(|_| 1.0))) {
                (Some(arrivals), Some(service)) => Ok(Demand { arrivals, service, ratio: class.ratio }),
                _ => Err(CliError::program(Unplanned::Unmeasured(name.clone()))),
            }
        });
        let demands = demands.collect::<Result<Vec<_>, _>>()?;
        let places = places.or(measured.map(|measured| measured.places)).unwrap_or(1);
        let plan = plan(places, &demands).map_err(|error| match error {
            PlanError::Number(class) => CliError::program(Unplanned::Number(known[class].clone())),
            PlanError::Nothing => CliError::program(Unplanned::Nothing(error)),
        })?;
        Ok(describe(&plan, places, &known, &demands))
    }
}

/// What a running front has measured.
struct Measured {
    before: Status,
    after: Status,
    places: u32,
}

impl Measured {
    fn now(config: &Config) -> Result<Self, CliError> {
        let ask = || Client::<StatusOf<Status>>::connect(config.control_socket.as_path())?.status();
        let before = ask()?;
        sleep(COUNTED);
        let after = ask()?;
        let places = after.servers.iter().filter(|server| server.up).map(|server| server.limit).sum();
        Ok(Self { before, after, places })
    }

    /// Requests per second, and seconds of service.
    fn of(&self, class: &str) -> Option<(f64, Option<f64>)> {
        let find = |status: &Status| -> Option<ClassStatus> {
            status.classes.iter().find(|known| known.name == class).cloned()
        };
        let (before, after) = (find(&self.before)?, find(&self.after)?);
        let arrived = after.arrived.saturating_sub(before.arrived);
        Some((arrived as f64 / COUNTED.as_secs_f64(), after.service_s))
    }
}

fn describe(plan: &Plan, places: u32, names: &[String], demands: &[Demand]) -> String {
    let mut text = format!("{places} requests at a time, load {:.0} %: ", plan.load * 100.0);
    // Writing to a string does not fail.
    let _ = match (plan.is_feasible, plan.load >= 1.0) {
        (true, _) => writeln!(text, "the ratios can be held"),
        (false, true) => writeln!(text, "more than the servers can do"),
        (false, false) => writeln!(text, "the ratios cannot be held, for too little waits"),
    };
    let _ = match plan.feasible_from {
        Some(load) => {
            writeln!(text, "with as much more or less of each class they can from {:.0} % on", load * 100.0)
        }
        None => writeln!(text, "they cannot at any load below 100 %"),
    };
    for ((name, demand), outlook) in names.iter().zip(demands).zip(&plan.classes) {
        let Demand { arrivals, service, ratio } = demand;
        let _ = write!(
            text,
            "class {name}: {arrivals:.1} requests/s of {}, ratio {ratio}",
            duration_ms(service * 1e3)
        );
        let _ = match outlook.response {
            Some(response) => writeln!(text, ", response time {}", duration_ms(response * 1e3)),
            None => writeln!(text, ", {:.0} % refused", outlook.refused * 100.0),
        };
    }
    text
}
