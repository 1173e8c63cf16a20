//! `astrago code NAME`: the code of a job, back on this disk.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use astrago_rest::snapshot;

use super::job::path;
use crate::args::{Code, Connection};
use crate::client::Client;
use crate::exit::Failure;
use crate::output;

pub(crate) async fn code(connection: &Connection, arguments: &Code) -> Result<()> {
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => PathBuf::from(&arguments.name),
    };
    let client = Client::connect(connection).await?;
    let query = [("namespace", client.namespace().await?)];
    let answer = client
        .stream(&path(&arguments.name, "/code"), &query, None)
        .await?;
    let archive = answer.bytes().await.context("failed to read the code")?;
    fs::create_dir(&folder).map_err(|error| {
        let shown = folder.display();
        if error.kind() == std::io::ErrorKind::AlreadyExists {
            let failure = Failure::theirs(format!("{shown} exists already"));
            return failure
                .hint("name another folder: `astrago code NAME FOLDER`")
                .into();
        }
        anyhow::Error::from(error).context(Failure::theirs(format!("failed to create {shown}")))
    })?;
    // Reading checks every path before it is used here.
    let listing = snapshot::read(&*archive, |path, executable, content| {
        let target = folder.join(path);
        fs::create_dir_all(target.parent().unwrap_or(&folder))?;
        let mut file = fs::File::options()
            .write(true)
            .create_new(true)
            .mode(if executable { 0o755 } else { 0o644 })
            .open(&target)?;
        std::io::copy(content, &mut file).map(drop)
    })
    .with_context(|| format!("failed to unpack the code into {}", folder.display()))?;
    let files = match listing.files.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    output::write(&format!("wrote {files} to {}\n", folder.display()))?;
    Ok(())
}
