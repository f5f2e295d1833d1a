//! Faults that are made on purpose: what `psmc-lab faults` shows of three of them.

use psmc_lab::faults::{FaultOptions, Row, faults};
use psmc_testbed::steadily::{Measured, steadily};

use super::with_programs;

#[test]
fn a_black_hole_costs_little_and_nothing_is_left_of_it() {
    steadily(Measured::Time, || {
        let row = made("black-hole-dsl");
        assert!(row.is_good(), "{row:?}");
        // What is on its way is lost, or the fault was none.
        assert!(row.silence_up_ms > 10.0 && row.restarts == 0, "{row:?}");
    });
}

#[test]
fn a_relay_that_is_killed_costs_nothing_that_other_paths_can_carry() {
    steadily(Measured::Time, || {
        let row = made("kill-relay");
        assert!(row.is_good(), "{row:?}");
        assert_eq!(row.restarts, 1, "{row:?}");
    });
}

#[test]
fn a_name_server_that_is_killed_is_back_and_nobody_else_notices() {
    steadily(Measured::Time, || {
        let row = made("kill-dns");
        assert!(row.is_good(), "{row:?}");
        assert_eq!(row.restarts, 1, "{row:?}");
    });
}

/// Makes a fault.
fn made(name: &str) -> Row {
    let options =
        FaultOptions { only: vec![name.to_owned()], keep: None, programs: with_programs().programs };
    let rows = faults(&options).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    let [row] = rows.try_into().unwrap_or_else(|rows| panic!("{rows:?}"));
    row
}
