//! The folders of persistent volume claims when their claims go.
//!
//! Only a deletion that was seen, of the very claim by its UID, ends a folder. That a claim is not listed
//! proves nothing: the store may be new, or another server's. Folders without a claim are therefore kept,
//! and `astrago doctor` shows them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use astrago_api::Readable;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};

use super::node::Node;
use crate::housekeeping::InUse;
use crate::layout;
use crate::{state, tree};

/// How long the files of a deleted claim can still be had back by an administrator.
pub(crate) const GRACE: Duration = Duration::from_mins(10);
/// How often it is looked whether pods still have the folder of a claim that is gone.
const INTERVAL: Duration = Duration::from_secs(10);

/// Follows the claims for as long as it is polled.
pub(super) async fn follow(node: Arc<Node>) {
    let api: Api<Readable<PersistentVolumeClaim>> = Api::all(node.client.clone());
    let mut events = Box::pin(watcher(api, watcher::Config::default()).default_backoff());
    let mut listed = BTreeSet::new();
    loop {
        match events.try_next().await {
            Ok(Some(watcher::Event::Init)) => listed.clear(),
            Ok(Some(watcher::Event::InitApply(claim))) => {
                listed.insert(folder(&node, &claim));
            }
            Ok(Some(watcher::Event::InitDone)) => {
                if let Err(error) = note_orphans(&node.options.data_dir, &listed) {
                    tracing::warn!(%error, "failed to note which volumes have no claim");
                }
            }
            Ok(Some(watcher::Event::Apply(_))) => {}
            Ok(Some(watcher::Event::Delete(claim))) => {
                let folder = folder(&node, &claim);
                node.tasks.spawn(retire(Arc::clone(&node), folder));
            }
            Ok(None) => return,
            Err(error) => tracing::warn!(%error, "volume claims could not be watched"),
        }
    }
}

fn folder(node: &Node, claim: &Readable<PersistentVolumeClaim>) -> PathBuf {
    let namespace = claim.namespace().unwrap_or_default();
    let uid = claim.uid().unwrap_or_default();
    layout::claim(&node.options.data_dir, &namespace, &claim.name_any(), &uid)
}

/// Takes a folder out of sight once no pod has it.
async fn retire(node: Arc<Node>, folder: PathBuf) {
    loop {
        let (data_dir, wanted) = (node.options.data_dir.clone(), folder.clone());
        let done = tokio::task::spawn_blocking(move || {
            if InUse::read(&data_dir).has(&wanted) {
                return Ok(false);
            }
            move_away(&data_dir, &wanted).map(|()| true)
        });
        match done.await {
            Ok(Ok(false)) => tokio::time::sleep(INTERVAL).await,
            Ok(Ok(true)) | Err(_) => return,
            Ok(Err(error)) => {
                tracing::warn!(folder = %folder.display(), %error, "the files of a deleted volume claim stay");
                return;
            }
        }
    }
}

fn move_away(data_dir: &Path, folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        // No pod ever used the claim.
        return Ok(());
    }
    let away = layout::deleted(data_dir);
    fs::create_dir_all(&away)?;
    let namespace = folder.parent().and_then(Path::file_name);
    let mut name = namespace.unwrap_or_default().to_owned();
    name.push("_");
    name.push(folder.file_name().unwrap_or_default());
    let kept = away.join(name);
    // From now on the time counts after which it is removed.
    File::open(folder)?.set_modified(SystemTime::now())?;
    fs::rename(folder, &kept)?;
    tracing::info!(folder = %kept.display(), "a volume claim was deleted; its files go in a while");
    Ok(())
}

/// Removes the files of claims that were deleted so long ago.
pub(crate) fn remove_deleted(data_dir: &Path, grace: Duration) {
    for entry in fs::read_dir(layout::deleted(data_dir))
        .into_iter()
        .flatten()
        .flatten()
    {
        let deleted = entry.metadata().and_then(|metadata| metadata.modified());
        let over = deleted.is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= grace));
        if over
            && let Err(error) =
                tree::remove_or_set_aside(&entry.path(), &layout::quarantine(data_dir))
        {
            tracing::warn!(folder = %entry.path().display(), %error, "failed to remove the files of a volume claim");
        }
    }
}

/// Writes down the folders that belong to none of these claims.
fn note_orphans(data_dir: &Path, claims: &BTreeSet<PathBuf>) -> io::Result<()> {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = list(&layout::claims(data_dir)).flat_map(|namespace| list(&namespace.path()));
    let orphans: Vec<String> = folders
        .map(|entry| entry.path())
        .filter(|folder| !claims.contains(folder))
        .map(|folder| format!("{}\n", folder.display()))
        .collect();
    let file = layout::orphans(data_dir);
    if orphans.is_empty() {
        return tree::remove(&file);
    }
    tracing::warn!(
        folders = orphans.len(),
        "there are volumes without a claim; they are kept"
    );
    state::replace(&file, orphans.concat().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_deleted_claim_can_be_had_back_for_a_while() {
        let data = tempfile::tempdir().unwrap();
        let folder = layout::claim(data.path(), "team", "data", "uid-1");
        move_away(data.path(), &folder).unwrap();
        fs::create_dir_all(folder.join("deep")).unwrap();
        move_away(data.path(), &folder).unwrap();
        let kept = layout::deleted(data.path()).join("team_data_uid-1");
        assert!(!folder.exists() && kept.join("deep").is_dir());
        remove_deleted(data.path(), GRACE);
        assert!(kept.exists());
        remove_deleted(data.path(), Duration::ZERO);
        assert!(!kept.exists());
    }

    #[test]
    fn folders_without_a_claim_are_kept_and_noted() {
        let data = tempfile::tempdir().unwrap();
        let known = layout::claim(data.path(), "team", "known", "uid-1");
        let orphan = layout::claim(data.path(), "team", "orphan", "uid-2");
        for folder in [&known, &orphan] {
            fs::create_dir_all(folder).unwrap();
        }
        note_orphans(data.path(), &BTreeSet::from([known.clone()])).unwrap();
        let noted = fs::read_to_string(layout::orphans(data.path())).unwrap();
        assert_eq!(noted, format!("{}\n", orphan.display()));
        assert!(orphan.is_dir());
        note_orphans(data.path(), &BTreeSet::from([known, orphan])).unwrap();
        assert!(!layout::orphans(data.path()).exists());
    }
}
