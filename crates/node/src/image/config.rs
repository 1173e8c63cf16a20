//! The part of an image's configuration that running it needs.

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// Defaults that an image gives to containers. The host image gives none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    pub env: Vec<(String, String)>,
    /// `user`, `uid`, `user:group` or `uid:gid`; names are looked up in the image's own files.
    pub user: Option<String>,
    pub working_dir: Option<String>,
    /// `SIGINT`, `INT` or a number, as Docker takes them.
    pub stop_signal: Option<String>,
}

impl Config {
    /// The program of a container: its `command` replaces the image's entrypoint *and* command,
    /// its `args` only the image's command.
    pub fn argv(&self, command: &[String], args: &[String]) -> Vec<String> {
        let (first, rest) = match (command.is_empty(), args.is_empty()) {
            (false, _) => (command, args),
            (true, false) => (&self.entrypoint[..], args),
            (true, true) => (&self.entrypoint[..], &self.command[..]),
        };
        [first, rest].concat()
    }

    /// The name of the signal that ends a container, if there is one of that name or number.
    pub fn stop_signal(&self) -> Option<String> {
        let given = self.stop_signal.as_ref()?.to_uppercase();
        let signal = match given.parse::<i32>() {
            Ok(number) => Signal::try_from(number),
            Err(_) if given.starts_with("SIG") => given.parse(),
            Err(_) => format!("SIG{given}").parse(),
        };
        Some(signal.ok()?.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case::full("SIGQUIT", Some("SIGQUIT"))]
    #[case::short("int", Some("SIGINT"))]
    #[case::number("10", Some("SIGUSR1"))]
    #[case::real_time("SIGRTMIN+3", None)]
    #[case::nonsense("stop it", None)]
    fn a_stop_signal_is_read_as_docker_does(#[case] given: &str, #[case] want: Option<&str>) {
        let config = Config {
            stop_signal: Some(given.to_owned()),
            ..Config::default()
        };
        assert_eq!(config.stop_signal().as_deref(), want);
    }

    #[rstest::rstest]
    #[case::nothing_given(&[], &[], &["/entry", "image-argument"])]
    #[case::args_replace_the_images_command(&[], &["mine"], &["/entry", "mine"])]
    #[case::a_command_replaces_both(&["/run"], &[], &["/run"])]
    #[case::both(&["/run"], &["mine"], &["/run", "mine"])]
    fn a_program_is_chosen_as_in_kubernetes(
        #[case] command: &[&str],
        #[case] args: &[&str],
        #[case] want: &[&str],
    ) {
        let config = Config {
            entrypoint: vec!["/entry".into()],
            command: vec!["image-argument".into()],
            ..Config::default()
        };
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(config.argv(&owned(command), &owned(args)), owned(want));
    }
}
