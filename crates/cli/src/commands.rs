//! What each subcommand does.

mod apply;
pub(crate) mod backup;
mod code;
mod completions;
mod connect;
mod delete;
mod doctor;
mod init;
mod job;
mod jobs;
mod logs;
mod mcp;
mod metrics;
pub(crate) mod migrate;
mod namespace;
pub(crate) mod preview;
mod run;
mod stacks;
mod user;
mod version;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Arguments, Colour, Command, Format};
use crate::{output, server};

/// Runs the command that was asked for.
pub(crate) fn dispatch(arguments: Arguments) -> Result<ExitCode> {
    match arguments.color {
        Colour::Auto => {}
        Colour::Always => anstream::ColorChoice::Always.write_global(),
        Colour::Never => anstream::ColorChoice::Never.write_global(),
    }
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if !arguments.command.is_server() && !matches!(arguments.command, Command::Run(_)) {
        builder.worker_threads(1);
    }
    let runtime = builder
        .enable_all()
        .build()
        .context("failed to start the runtime")?;
    let result = runtime.block_on(perform(arguments));
    // A task that hangs in the kernel must not keep the program from ending.
    runtime.shutdown_background();
    result
}

async fn perform(arguments: Arguments) -> Result<ExitCode> {
    let Arguments {
        connection,
        output: asked,
        command,
        ..
    } = arguments;
    let format = asked.unwrap_or(Format::Table);
    match command {
        Command::Up(up) => server::up(&connection, &up).await?,
        Command::Serve(serve) => server::serve(&connection, &serve).await?,
        Command::Controllers(alone) => server::controllers(&alone).await?,
        Command::Node(alone) => server::node(&connection, &alone).await?,
        Command::Run(run) => return run::run(&connection, asked, &run).await,
        Command::Init(wanted) => init::init(&wanted)?,
        Command::Code(wanted) => code::code(&connection, &wanted).await?,
        Command::Jobs(list) => jobs::list(&connection, format, &list).await?,
        Command::Nodes => jobs::nodes(&connection, format).await?,
        Command::Runtimes => jobs::runtimes(&connection, format).await?,
        Command::Job(named) => job::show(&connection, format, &named.name).await?,
        Command::Events(named) => job::events(&connection, format, &named.name).await?,
        Command::Metrics(wanted) => metrics::metrics(&connection, format, &wanted).await?,
        Command::Delete(wanted) => delete::delete(&connection, format, &wanted).await?,
        Command::Suspend(named) => job::act(&connection, format, &named.name, "suspend").await?,
        Command::Resume(named) => job::act(&connection, format, &named.name, "resume").await?,
        Command::Restart(named) => job::restart(&connection, format, &named.name).await?,
        Command::Logs(wanted) => logs::show(&connection, format, &wanted).await?,
        Command::Shell(wanted) => return connect::shell(&connection, &wanted).await,
        Command::Exec(wanted) => return connect::exec(&connection, &wanted).await,
        Command::Copy(wanted) => return connect::copy(&connection, &wanted).await,
        Command::PortForward(wanted) => connect::port_forward(&connection, &wanted).await?,
        Command::Stacks(wanted) => stacks::stacks(&connection, format, &wanted).await?,
        Command::Preview(wanted) => {
            let form = preview::Form::from(asked);
            let (mut out, mut warnings) = (Vec::new(), Vec::new());
            let shown = preview::run(&wanted, form, &mut out, &mut warnings);
            output::say(&String::from_utf8_lossy(&warnings));
            shown.map_err(preview::Error::into_failure)?;
            output::write(&String::from_utf8_lossy(&out))?;
        }
        Command::Migrate(wanted) => migrate::run(&wanted)?,
        Command::Namespace(wanted) => {
            namespace::namespace(&connection, format, &wanted.command).await?;
        }
        Command::Apply(wanted) => apply::apply(&connection, &wanted).await?,
        Command::User(user) => user::user(&connection, format, &user.command).await?,
        Command::Backup(wanted) => backup::backup(&connection, &wanted)?,
        Command::Restore(wanted) => backup::restore(&connection, &wanted)?,
        Command::Doctor => return doctor::doctor(&connection, format).await,
        Command::Mcp(wanted) => mcp::mcp(&connection, &wanted).await?,
        Command::Version => version::version(&connection, format).await?,
        Command::Completions { shell } => {
            output::write(&completions::script(shell))?;
        }
        Command::JobNames => completions::job_names(&connection).await?,
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
            output::write(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
