//! `astrago run --git`: a repository as a folder of this machine, fetched with its user's own credentials.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use astrago_rest::model::Source;

use crate::exit::Failure;

/// A repository and what of it is wanted.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'text> {
    url: &'text str,
    reference: &'text str,
}

impl<'text> Wanted<'text> {
    /// The last `@` within the path stands before a branch, a tag or a commit; one before it belongs to a user's name.
    fn parse(text: &'text str) -> Self {
        let path = match (text.find("://"), text.find(':')) {
            (Some(at), _) => text[at + 3..]
                .find('/')
                .map_or(text.len(), |slash| at + 3 + slash),
            (None, Some(colon)) => colon,
            (None, None) => 0,
        };
        match text[path..].rfind('@') {
            Some(at) => Self {
                url: &text[..path + at],
                reference: &text[path + at + 1..],
            },
            None => Self {
                url: text,
                reference: "HEAD",
            },
        }
    }

    /// The address without the secrets that it may hold.
    fn public(&self) -> String {
        match self.url.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let host = authority.rsplit('@').next().unwrap_or_default();
                format!("{scheme}://{host}{path}")
            }
            None => self.url.to_owned(),
        }
    }
}

/// Fetches one commit of a repository into an empty folder.
pub(super) fn fetch(text: &str, folder: &Path) -> Result<Source> {
    let wanted = Wanted::parse(text);
    git(folder, &["init", "--quiet"])?;
    let parts = [
        "fetch",
        "--quiet",
        "--depth",
        "1",
        "--",
        wanted.url,
        wanted.reference,
    ];
    git(folder, &parts)?;
    git(folder, &["checkout", "--quiet", "--detach", "FETCH_HEAD"])?;
    Ok(Source {
        repository: wanted.public(),
        commit: git(folder, &["rev-parse", "HEAD"])?,
    })
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    let output = command
        .output()
        .context(Failure::theirs("failed to start git, which --git needs").hint("install git"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Failure::theirs(format!("git {} failed: {said}", arguments[0])).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_stands_behind_the_path() {
        for (text, url, reference) in [
            ("https://x.org/a/b", "https://x.org/a/b", "HEAD"),
            ("https://x.org/a/b@v1", "https://x.org/a/b", "v1"),
            (
                "https://kim:secret@x.org/a/b@feature/x",
                "https://kim:secret@x.org/a/b",
                "feature/x",
            ),
            ("git@x.org:a/b.git", "git@x.org:a/b.git", "HEAD"),
            ("git@x.org:a/b.git@main", "git@x.org:a/b.git", "main"),
            ("/srv/repo@main", "/srv/repo", "main"),
        ] {
            assert_eq!(Wanted::parse(text), Wanted { url, reference }, "{text}");
        }
        let secret = Wanted::parse("https://kim:secret@x.org/a@v1");
        assert_eq!(secret.public(), "https://x.org/a");
    }
}
