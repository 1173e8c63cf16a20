//! The data folder's own small disk: an ext4 file system in a file, which can be filled, frozen, failed and unplugged.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::eventually;

/// `EXT4_IOC_SHUTDOWN` without a flush of the journal: from now on nothing reaches the disk, as when the power is cut.
/// What was synced is there when it is mounted again, and what was not is gone.
const CUT: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

pub(crate) struct Disk {
    data: PathBuf,
    image: PathBuf,
    device: String,
}

impl Disk {
    /// Where the machine lets us.
    pub(crate) fn new(data: &Path) -> Option<Self> {
        std::fs::create_dir_all(data).ok()?;
        // In memory, so that a sync costs what it costs on a disk that nobody else uses.
        let name = data.parent()?.file_name()?;
        let image = Path::new("/dev/shm").join(name);
        let path = image.to_str()?;
        std::fs::File::create(&image)
            .ok()?
            .set_len(192 << 20)
            .ok()?;
        run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-m", "0", path]).ok()?;
        let device = run("losetup", &["--find", "--show", path]).ok()?;
        let disk = Self {
            data: data.to_owned(),
            image,
            device: device.trim().to_owned(),
        };
        disk.mount().ok()?;
        std::fs::remove_dir(data.join("lost+found")).ok()?;
        let owner = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(data, owner).ok()?;
        run("sync", &["-f", data.to_str()?]).ok()?;
        Some(disk)
    }

    /// Takes it off the machine, and tells where everything that was on it is kept.
    pub(crate) fn keep(&self) -> &Path {
        let _ = run("umount", &["-l", self.path()]);
        let _ = run("losetup", &["-d", &self.device]);
        &self.image
    }

    fn path(&self) -> &str {
        self.data.to_str().unwrap()
    }

    fn mount(&self) -> Result<(), String> {
        let options = "errors=remount-ro";
        run(
            "mount",
            &["-t", "ext4", "-o", options, &self.device, self.path()],
        )
        .map(drop)
    }

    /// The end of all that memory still had of it, and what a start of the machine finds on it.
    pub(crate) async fn mount_again(&self) -> Result<(), String> {
        eventually("that nobody uses the disk", || async {
            run("umount", &[self.path()])
        })
        .await?;
        let known = Path::new("/sys/fs/ext4").join(self.device.trim_start_matches("/dev/"));
        eventually("that no namespace holds the disk", || async {
            (!known.exists()).then_some(()).ok_or_else(String::new)
        })
        .await?;
        self.check()?;
        self.mount()?;
        // A removal that was not synced is undone by a power cut.
        self.free();
        // The check makes one where there is none.
        let _ = std::fs::remove_dir(self.data.join("lost+found"));
        Ok(())
    }

    /// As a machine does when it starts: of a file that was removed when the disk had failed, only this frees the room.
    fn check(&self) -> Result<(), String> {
        let checked = Command::new("e2fsck").args(["-y", &self.device]).output();
        let checked = checked.map_err(|error| format!("e2fsck: {error}"))?;
        match checked.status.code() {
            // Whole, and mended.
            Some(0 | 1) => Ok(()),
            _ => Err(String::from_utf8_lossy(&checked.stdout).into_owned()),
        }
    }

    pub(crate) fn cut(&self) -> Result<(), String> {
        let python = std::env::var("ASTRAGO_TEST_PYTHON");
        let python = python.unwrap_or_else(|_| "python3".to_owned());
        run(&python, &["-c", CUT, self.path()]).map(drop)
    }

    /// Lets the kernel find an error, after which it takes no writes until it is mounted again.
    pub(crate) fn fail(&self) -> Result<(), String> {
        let name = self.device.trim_start_matches("/dev/");
        let trigger = format!("/sys/fs/ext4/{name}/trigger_fs_error");
        std::fs::write(trigger, "laboratory").map_err(|error| error.to_string())
    }

    /// Every write waits until it is thawed.
    pub(crate) fn freeze(&self) -> Result<(), String> {
        run("fsfreeze", &["-f", self.path()]).map(drop)
    }

    pub(crate) fn thaw(&self) -> Result<(), String> {
        run("fsfreeze", &["-u", self.path()]).map(drop)
    }

    pub(crate) fn fill(&self) {
        let Ok(mut file) = std::fs::File::create(self.data.join("filler")) else {
            return;
        };
        for block in [1 << 20, 4096, 1] {
            let block = vec![0; block];
            while file.write_all(&block).is_ok() {}
        }
    }

    pub(crate) fn free(&self) {
        let _ = std::fs::remove_file(self.data.join("filler"));
    }

    /// Leaves nothing of it.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(self.keep());
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {arguments:?}: {said}"))
}
