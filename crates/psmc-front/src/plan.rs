//! `psmc-front plan`: which ratios can be held, and what each class would see, from what is given or from what a front measures.

use std::collections::BTreeMap;
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

use crate::config::{Config, Hold, Limit};
use crate::daemon::admission_of;
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
    #[error(
        "--places is for classes that share servers; give each [[upstream]] a limit, or ask the running front"
    )]
    Places,
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
        let sets = competing(&config);
        if self.places.is_some() && sets.len() > 1 {
            return Err(CliError::program(Unplanned::Places));
        }
        let fixed =
            sets.iter().map(|set| self.places.or_else(|| places(&config, set))).collect::<Option<Vec<_>>>();
        let is_known = fixed.is_some() && known.iter().all(is_given);
        let measured = if is_known { None } else { Some(Measured::now(&config)?) };
        let of = |class: &str| measured.as_ref().and_then(|measured| measured.of(class));
        let mut text = String::new();
        for set in &sets {
            let demand = |&place: &usize| {
                let (class, name) = (&config.classes[place], &known[place]);
                let arrivals = given(&self.arrivals, name).or_else(|| of(name).map(|(arrivals, _)| arrivals));
                // Nobody waits for a class of which nothing comes.
                let service = given(&self.service, name).map(|ms| ms / 1e3);
                let service = service.or_else(|| of(name).and_then(|(_, service)| service));
                match (arrivals, service.or(arrivals.filter(|rate| *rate == 0.0).map(|_| 1.0))) {
                    (Some(arrivals), Some(service)) => Ok(Demand { arrivals, service, ratio: class.ratio }),
                    _ => Err(CliError::program(Unplanned::Unmeasured(name.clone()))),
                }
            };
            let demands = set.iter().map(demand).collect::<Result<Vec<_>, _>>()?;
            let names: Vec<&str> = set.iter().map(|place| known[*place].as_str()).collect();
            let places = self.places.or_else(|| places(&config, set));
            let places =
                places.or(measured.as_ref().map(|measured| measured.places(&config, set))).unwrap_or(1);
            let held: Vec<Demand> = demands.iter().map(|demand| held(demand, config.hold)).collect();
            match plan(places, &held) {
                Ok(plan) => text += &describe(&plan, places, &names, &demands, config.hold),
                Err(PlanError::Number(class)) => {
                    return Err(CliError::program(Unplanned::Number(names[class].to_owned())));
                }
                Err(error @ PlanError::Nothing) if sets.len() == 1 => {
                    return Err(CliError::program(Unplanned::Nothing(error)));
                }
                Err(error @ PlanError::Nothing) => {
                    let _ = writeln!(text, "classes {}: {error}", names.join(", "));
                }
            }
        }
        Ok(text)
    }
}

/// The classes by those that share servers, be it by way of others: each set is planned for apart.
fn competing(config: &Config) -> Vec<Vec<usize>> {
    let mut sets: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (class, first) in admission_of(config).firsts().into_iter().enumerate() {
        sets.entry(first).or_default().push(class);
    }
    sets.into_values().collect()
}

/// Whether servers of a group are for one of these classes.
fn serves(config: &Config, group: usize, set: &[usize]) -> bool {
    set.iter().any(|class| config.classes[*class].upstreams.contains(&group))
}

/// Requests that servers for these classes have at a time, if the file says so.
fn places(config: &Config, set: &[usize]) -> Option<u32> {
    let groups = config.upstreams.iter().enumerate().filter(|(group, _)| serves(config, *group, set));
    let of_group = groups.map(|(_, group)| match group.limit {
        Limit::Fixed(limit) => limit.checked_mul(u32::try_from(group.servers.len()).ok()?),
        Limit::Adaptive => None,
    });
    of_group.sum()
}

/// As if response times were to be in these ratios: those of slowdowns, times what servers take.
fn held(demand: &Demand, hold: Hold) -> Demand {
    match hold {
        Hold::ResponseTime => *demand,
        Hold::Slowdown => Demand { ratio: demand.ratio * demand.service, ..*demand },
    }
}

/// What a running front has measured.
struct Measured {
    before: Status,
    after: Status,
}

impl Measured {
    fn now(config: &Config) -> Result<Self, CliError> {
        let ask = || Client::<StatusOf<Status>>::connect(config.control_socket.as_path())?.status();
        let before = ask()?;
        sleep(COUNTED);
        let after = ask()?;
        Ok(Self { before, after })
    }

    /// What servers for these classes have at a time.
    fn places(&self, config: &Config, set: &[usize]) -> u32 {
        let is_for = |name: &str| {
            let group = config.upstreams.iter().position(|group| group.name.as_str() == name);
            group.is_some_and(|group| serves(config, group, set))
        };
        let servers = self.after.servers.iter().filter(|server| server.up && is_for(&server.upstream));
        servers.map(|server| server.limit).sum()
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

fn describe(plan: &Plan, places: u32, names: &[&str], demands: &[Demand], hold: Hold) -> String {
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
            Some(response) => {
                let slowdown = match hold {
                    Hold::ResponseTime => String::new(),
                    Hold::Slowdown => format!(", slowdown {:.1}", response / service),
                };
                writeln!(text, ", response time {}{slowdown}", duration_ms(response * 1e3))
            }
            None => writeln!(text, ", {:.0} % refused", outlook.refused * 100.0),
        };
    }
    text
}
