//! `astrago completions`: what clap generates, and the names of jobs.

use anyhow::Result;
use astrago_rest::model::JobList;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Arguments, Connection};
use crate::client::Client;
use crate::output;

/// The commands that take the name of a job first.
const OF_A_JOB: &str =
    "job|logs|metrics|events|stacks|shell|exec|port-forward|delete|suspend|resume|restart|code";

/// The most names that are offered.
const MOST: &str = "200";

pub(crate) fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "astrago", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => script + &BASH.replace("COMMANDS", OF_A_JOB),
        Shell::Zsh => {
            let named = "Name of the job:_default";
            let script = script.replace(named, "Name of the job:_astrago_job_names");
            let script = script.replace(
                "Names of the jobs:_default",
                "Names of the jobs:_astrago_job_names",
            );
            // Before the last part, which calls what stands above it.
            script.replacen("_astrago() {", &format!("{ZSH}_astrago() {{"), 1)
        }
        Shell::Fish => script + &FISH.replace("COMMANDS", &OF_A_JOB.replace('|', " ")),
        _ => script,
    }
}

const BASH: &str = r#"
_astrago_with_jobs() {
    _astrago "$@"
    case "${COMP_WORDS[COMP_CWORD]}" in -*) return ;; esac
    case "${COMP_WORDS[COMP_CWORD-1]}" in
        COMMANDS) COMPREPLY+=($(compgen -W "$(astrago job-names 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}")) ;;
    esac
}
complete -F _astrago_with_jobs -o nosort -o bashdefault -o default astrago
"#;

const ZSH: &str = r#"_astrago_job_names() {
    local -a names
    names=(${(f)"$(astrago job-names 2>/dev/null)"})
    compadd -a names
}

"#;

const FISH: &str = r#"
complete -c astrago -n "__fish_seen_subcommand_from COMMANDS" -f -a "(astrago job-names 2>/dev/null)"
"#;

/// Prints the names of the jobs in the namespace, the newest first.
pub(crate) async fn job_names(connection: &Connection) -> Result<()> {
    let client = Client::connect(connection).await?;
    let query = [
        ("namespace", client.namespace().await?),
        ("limit", MOST.to_owned()),
    ];
    let jobs: JobList = client.get("/api/trainjobs", &query).await?;
    let lines = jobs.items.iter().map(|job| format!("{}\n", job.name));
    output::write(&lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_ask_for_the_names_of_jobs() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("astrago job-names"), "{shell}");
        }
        let zsh = script(Shell::Zsh);
        assert!(
            zsh.matches(":_astrago_job_names").count() >= OF_A_JOB.split('|').count(),
            "{zsh}"
        );
    }
}
