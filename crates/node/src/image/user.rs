//! The user that an image asks for.
//!
//! Its name is looked up in the image's own `passwd` and `group`, which strangers wrote: they are read
//! within the image alone, only if they are plain files, and only so far.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{FileType, OFlags};

use super::Root;
use crate::sandbox::identity;
use crate::sandbox::mounts::Tree;

/// No honest `passwd` is longer.
const BYTES_MAX: u64 = 1 << 20;

impl Root {
    /// The ids of user and group, or what is wrong with what the image asks for.
    pub(crate) fn user(&self) -> Result<(u32, u32), String> {
        let Some(text) = self.config.user.as_deref().filter(|text| !text.is_empty()) else {
            return Ok((0, 0));
        };
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let known = self.line("passwd", user);
        let id = |name: &str, line: Option<&String>, column: usize| {
            let listed = || line?.split(':').nth(column)?.parse().ok();
            name.parse().ok().or_else(listed)
        };
        let unknown =
            |name: &str| format!("the image asks for the user {name:?}, whom it does not have");
        let uid = id(user, known.as_ref(), 2).ok_or_else(|| unknown(user))?;
        let gid = match group {
            Some(group) => {
                id(group, self.line("group", group).as_ref(), 2).ok_or_else(|| unknown(text))?
            }
            None => id("", known.as_ref(), 3).unwrap_or(0),
        };
        let ours = |id| identity::given("the image's USER", Some(id)).map(|id| id.unwrap_or(0));
        Ok((ours(uid)?, ours(gid)?))
    }

    /// The line of a user or group, by name or by number.
    fn line(&self, file: &str, name: &str) -> Option<String> {
        let text = self.read(&Path::new("./etc").join(file))?;
        let is_it = |line: &&str| {
            let mut columns = line.split(':');
            columns.next() == Some(name) || columns.nth(1) == Some(name)
        };
        text.lines().find(is_it).map(str::to_owned)
    }

    /// A file as the uppermost layer that has it says.
    fn read(&self, path: &Path) -> Option<String> {
        for layer in &self.lowers {
            let tree = Tree::open(layer, (0, 0)).ok()?;
            // A pipe would otherwise be waited for.
            let file = match tree.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
            {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                opened => opened.ok()?,
            };
            let stat = rustix::fs::fstat(&file).ok()?;
            if !FileType::from_raw_mode(stat.st_mode).is_file() {
                return None;
            }
            let mut bytes = Vec::new();
            File::from(file)
                .take(BYTES_MAX)
                .read_to_end(&mut bytes)
                .ok()?;
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::image::{Config, Source};

    fn root(layer: &Path, user: &str) -> Root {
        Root {
            source: Source::Host { python: None },
            lowers: vec![layer.to_owned()],
            config: Config {
                user: Some(user.to_owned()),
                ..Config::default()
            },
        }
    }

    #[rstest::rstest]
    #[case::nobody_named("", Some((0, 0)))]
    #[case::a_name("train", Some((1000, 1001)))]
    #[case::a_number("1000", Some((1000, 1001)))]
    #[case::a_number_of_nobody("1234", Some((1234, 0)))]
    #[case::a_group("train:video", Some((1000, 44)))]
    #[case::numbers("7:8", Some((7, 8)))]
    #[case::an_unknown_name("nobody-here", None)]
    #[case::an_unknown_group("train:none", None)]
    #[case::a_number_that_is_too_large("100000", None)]
    #[case::a_listed_number_that_is_too_large("large", None)]
    fn an_image_gets_the_user_that_it_asks_for_or_none(
        #[case] user: &str,
        #[case] want: Option<(u32, u32)>,
    ) {
        let layer = tempfile::tempdir().unwrap();
        std::fs::create_dir(layer.path().join("etc")).unwrap();
        let passwd = "root:x:0:0::/:\ntrain:x:1000:1001::/:\nlarge:x:70000:1::/:\n";
        std::fs::write(layer.path().join("etc/passwd"), passwd).unwrap();
        std::fs::write(layer.path().join("etc/group"), "video:x:44:\n").unwrap();
        assert_eq!(root(layer.path(), user).user().ok(), want);
    }

    #[test]
    fn users_are_never_looked_up_on_the_host_nor_in_what_is_no_file() {
        let layer = tempfile::tempdir().unwrap();
        std::fs::create_dir(layer.path().join("etc")).unwrap();
        let passwd = layer.path().join("etc/passwd");
        for target in ["/dev/zero", "/etc/passwd", "../../../../../../etc/passwd"] {
            symlink(target, &passwd).unwrap();
            assert!(root(layer.path(), "daemon").user().is_err(), "{target}");
            std::fs::remove_file(&passwd).unwrap();
        }
        let fifo = FileType::Fifo;
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mknodat(rustix::fs::CWD, &passwd, fifo, mode, 0).unwrap();
        assert!(root(layer.path(), "daemon").user().is_err());
    }
}
