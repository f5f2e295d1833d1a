//! How long commands take, as scripts measure it.

/// Lines of a script that run a command and, if it succeeds, print how long that took, in ns.
pub(super) fn timed(label: &str, command: &str) -> String {
    format!("begin=$(date +%s%N)\nif {command}; then echo \"{label} $(($(date +%s%N) - begin))\"; fi\n")
}

/// What such lines have printed, in s.
pub(super) fn times(output: &str, label: &str) -> Vec<f64> {
    let time = |line: &str| line.strip_prefix(label)?.strip_prefix(' ')?.parse::<f64>().ok();
    output.lines().filter_map(time).map(|ns| ns / 1e9).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_says_how_long_what_succeeds_takes() {
        let script = timed("slow", "sleep 0.05") + &timed("failed", "false") + &timed("slower", "true");
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let slow = times(&output, "slow");
        assert!(slow.len() == 1 && slow[0] >= 0.05, "{output}");
        assert_eq!((times(&output, "failed").len(), times(&output, "slower").len()), (0, 1));
    }
}
