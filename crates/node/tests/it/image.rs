//! Images from a registry, as a pod gets them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

use astrago_node::image::{Credentials, Error, Images, Policy, Progress, Root, Source};
use serde_json::json;

use crate::registry::{Registry, layer};

const QUOTA: u64 = 1 << 30;

struct Fixture {
    registry: Registry,
    images: Images,
    directory: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        Self::with_quota(QUOTA).await
    }

    async fn with_quota(quota: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let images = Images::open(directory.path(), quota, true).unwrap();
        Self {
            registry: Registry::start().await,
            images,
            directory,
        }
    }

    fn name(&self, tag: &str) -> String {
        format!("{}/image:{tag}", self.registry.address())
    }

    async fn pull(&self, tag: &str) -> Result<Root, Error> {
        self.pull_as(tag, &Credentials::default()).await
    }

    async fn pull_as(&self, tag: &str, credentials: &Credentials) -> Result<Root, Error> {
        self.images
            .resolve(&self.name(tag), Policy::IfNotPresent, credentials, &|_| ())
            .await
    }

    fn credentials(&self, password: &str) -> Credentials {
        let mut credentials = Credentials::default();
        let auths = json!({self.registry.address(): {"username": "user", "password": password}});
        credentials
            .add(json!({"auths": auths}).to_string().as_bytes())
            .unwrap();
        credentials
    }

    /// Nothing half-done is left.
    fn drafts(&self) -> usize {
        std::fs::read_dir(self.directory.path().join("images/draft"))
            .unwrap()
            .count()
    }
}

#[tokio::test]
async fn an_image_is_pulled_once_and_its_configuration_honoured() {
    let fixture = Fixture::new().await;
    let config = json!({"Entrypoint": ["/entry"], "Cmd": ["argument"], "Env": ["A=b=c", "EMPTY="],
        "User": "1000:100", "WorkingDir": "/work", "Labels": null});
    let layers = [
        layer(&[("etc/", b""), ("etc/name", b"base")]),
        layer(&[("etc/name", b"top")]),
    ];
    let (digest, _) = fixture.registry.push("v1", &layers, &config);
    let seen = Mutex::new(Vec::new());
    let progress = |step: Progress| seen.lock().unwrap().push(step);
    let anyone = Credentials::default();
    let root = fixture
        .images
        .resolve(
            &fixture.name("v1"),
            Policy::IfNotPresent,
            &anyone,
            &progress,
        )
        .await
        .unwrap();

    assert_eq!(root.config.argv(&[], &[]), ["/entry", "argument"]);
    assert_eq!(root.config.env[0], ("A".to_owned(), "b=c".to_owned()));
    assert_eq!(root.config.user.as_deref(), Some("1000:100"));
    assert_eq!(root.config.working_dir.as_deref(), Some("/work"));
    assert_eq!(
        root.id(),
        format!("{}/image@{digest}", fixture.registry.address())
    );
    assert_eq!(
        std::fs::read(root.lowers[0].join("etc/name")).unwrap(),
        b"top"
    );
    assert_eq!(
        std::fs::read(root.lowers[1].join("etc/name")).unwrap(),
        b"base"
    );
    let last = *seen.lock().unwrap().last().unwrap();
    assert_eq!(
        (last.layers, last.layers_done, last.bytes_done),
        (2, 2, last.bytes)
    );

    let requests = fixture.registry.blob_requests().len();
    assert_eq!(fixture.pull("v1").await.unwrap(), root);
    // A restart of the node changes nothing.
    let again = Images::open(fixture.directory.path(), QUOTA, true).unwrap();
    let found = again
        .resolve(&fixture.name("v1"), Policy::Never, &anyone, &|_| ())
        .await;
    assert_eq!(found.unwrap(), root);
    assert_eq!(fixture.registry.blob_requests().len(), requests);
}

#[tokio::test]
async fn pulls_at_the_same_time_share_layers_and_work() {
    let fixture = Fixture::new().await;
    let base = layer(&[("base", &vec![7; 100_000])]);
    let (_, first) = fixture
        .registry
        .push("a", &[base.clone(), layer(&[("a", b"a")])], &json!({}));
    fixture
        .registry
        .push("b", &[base, layer(&[("b", b"b")])], &json!({}));
    let pulls = (0..8).map(|number| fixture.pull(if number % 2 == 0 { "a" } else { "b" }));
    let roots = futures::future::try_join_all(pulls).await.unwrap();
    assert_eq!(roots[0].lowers[1], roots[1].lowers[1]);
    assert_ne!(roots[0].lowers[0], roots[1].lowers[0]);
    let of_base = fixture
        .registry
        .blob_requests()
        .iter()
        .filter(|id| **id == first[0])
        .count();
    assert_eq!(of_base, 1);
}

#[tokio::test]
async fn a_moved_tag_is_seen_by_those_who_always_ask() {
    let fixture = Fixture::new().await;
    let anyone = Credentials::default();
    let (old, _) = fixture
        .registry
        .push("latest", &[layer(&[("v", b"1")])], &json!({}));
    let first = fixture.pull("latest").await.unwrap();
    fixture
        .registry
        .push("latest", &[layer(&[("v", b"2")])], &json!({}));
    assert_eq!(fixture.pull("latest").await.unwrap(), first);
    let name = fixture.name("latest");
    let moved = fixture
        .images
        .resolve(&name, Policy::Always, &anyone, &|_| ())
        .await
        .unwrap();
    assert_eq!(std::fs::read(moved.lowers[0].join("v")).unwrap(), b"2");
    assert_eq!(fixture.pull("latest").await.unwrap(), moved);
    // The digest still leads to the old one.
    let by_digest = format!("{}/image@{old}", fixture.registry.address());
    let pinned = fixture
        .images
        .resolve(&by_digest, Policy::IfNotPresent, &anyone, &|_| ())
        .await
        .unwrap();
    assert_eq!(pinned.lowers, first.lowers);
}

#[tokio::test]
async fn a_private_image_is_not_given_to_the_second_tenant() {
    let fixture = Fixture::new().await;
    fixture.registry.require_login("user", "right");
    fixture
        .registry
        .push("v1", &[layer(&[("secret", b"model")])], &json!({}));
    for stranger in [Credentials::default(), fixture.credentials("wrong")] {
        let error = fixture.pull_as("v1", &stranger).await.unwrap_err();
        assert!(matches!(error, Error::Unauthorized { .. }), "{error:?}");
        assert_eq!(error.reason(), "ErrImagePull");
    }
    let owner = fixture.credentials("right");
    let root = fixture.pull_as("v1", &owner).await.unwrap();
    // It is on this machine now, and still nobody else's.
    for stranger in [Credentials::default(), fixture.credentials("wrong")] {
        let error = fixture.pull_as("v1", &stranger).await.unwrap_err();
        assert!(matches!(error, Error::Unauthorized { .. }), "{error:?}");
        let name = fixture.name("v1");
        let never = fixture
            .images
            .resolve(&name, Policy::Never, &stranger, &|_| ())
            .await;
        assert!(matches!(never, Err(Error::Unauthorized { .. })));
    }
    assert_eq!(fixture.pull_as("v1", &owner).await.unwrap(), root);
}

#[tokio::test]
async fn what_is_not_what_it_says_is_refused() {
    let fixture = Fixture::new().await;
    let (_, layers) = fixture
        .registry
        .push("v1", &[layer(&[("file", b"good")])], &json!({}));
    fixture
        .registry
        .tamper(&layers[0], &layer(&[("file", b"evil")]));
    let error = fixture.pull("v1").await.unwrap_err();
    assert!(matches!(error, Error::Blob { .. }), "{error:?}");
    assert_eq!(fixture.drafts(), 0);
    assert_eq!(
        std::fs::read_dir(fixture.directory.path().join("images/layers"))
            .unwrap()
            .count(),
        0
    );

    let hostile = {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..12].copy_from_slice(b"../../escape");
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
        builder.into_inner().unwrap()
    };
    fixture.registry.push("hostile", &[hostile], &json!({}));
    let error = fixture.pull("hostile").await.unwrap_err();
    assert!(matches!(error, Error::Blob { .. }), "{error:?}");
    assert!(!fixture.directory.path().join("escape").exists());
}

#[tokio::test]
async fn a_broken_connection_is_taken_up_again() {
    let fixture = Fixture::new().await;
    let mut noise = 1_u32;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.to_be_bytes()[0]
    })
    .take(1 << 20)
    .collect();
    let (_, layers) = fixture
        .registry
        .push("v1", &[layer(&[("file", &content)])], &json!({}));
    fixture.registry.break_once(&layers[0]);
    let root = fixture.pull("v1").await.unwrap();
    assert!(std::fs::read(root.lowers[0].join("file")).unwrap() == content);
    assert_eq!(
        fixture
            .registry
            .blob_requests()
            .iter()
            .filter(|id| **id == layers[0])
            .count(),
        2
    );
}

#[tokio::test]
async fn the_platform_is_chosen_or_named_as_missing() {
    let fixture = Fixture::new().await;
    let native = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let (mine, _) =
        fixture
            .registry
            .push_for("mine", &[layer(&[("mine", b"")])], &json!({}), native);
    let (other, _) =
        fixture
            .registry
            .push_for("other", &[layer(&[("other", b"")])], &json!({}), "s390x");
    fixture
        .registry
        .index("both", &[("s390x", &other), (native, &mine)]);
    fixture.registry.index("foreign", &[("s390x", &other)]);
    let root = fixture.pull("both").await.unwrap();
    assert!(root.lowers[0].join("mine").exists());
    assert!(matches!(root.source, Source::Image { digest, .. } if digest == mine));
    for tag in ["foreign", "other"] {
        let text = fixture.pull(tag).await.unwrap_err().to_string();
        assert!(
            text.contains(&format!("linux/{native}")) && text.contains("s390x"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn names_that_lead_nowhere_are_told_apart() {
    let fixture = Fixture::new().await;
    let missing = fixture.pull("missing").await.unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing:?}");
    let anyone = Credentials::default();
    let bad = fixture
        .images
        .resolve("UPPER case", Policy::Always, &anyone, &|_| ())
        .await;
    assert_eq!(bad.unwrap_err().reason(), "InvalidImageName");
    let name = fixture.name("missing");
    let never = fixture
        .images
        .resolve(&name, Policy::Never, &anyone, &|_| ())
        .await;
    assert_eq!(never.unwrap_err().reason(), "ErrImageNeverPull");
}

#[tokio::test]
async fn an_image_that_does_not_fit_is_refused_and_leaves_nothing() {
    let fixture = Fixture::with_quota(100_000).await;
    fixture.registry.push(
        "large",
        &[layer(&[("zeros", &vec![0; 200_000])])],
        &json!({}),
    );
    let error = fixture.pull("large").await.unwrap_err();
    assert!(matches!(error, Error::Quota { .. }), "{error:?}");
    assert_eq!(fixture.drafts(), 0);
    assert_eq!(fixture.images.clean(BTreeSet::new()).await.unwrap(), 0);
}

/// The kernel agrees with what whiteouts were turned into.
#[tokio::test]
async fn the_layers_make_an_overlay_in_which_deleted_files_are_gone() {
    let fixture = Fixture::new().await;
    let base = layer(&[
        ("gone", b"x"),
        ("kept", b"x"),
        ("opaque/", b""),
        ("opaque/old", b"x"),
        ("replaced/", b""),
        ("replaced/old", b"x"),
    ]);
    let top = layer(&[
        (".wh.gone", b""),
        ("opaque/", b""),
        ("opaque/.wh..wh..opq", b""),
        ("opaque/new", b"x"),
        ("replaced", b"a file now"),
    ]);
    fixture.registry.push("v1", &[base, top], &json!({}));
    let root = fixture.pull("v1").await.unwrap();
    let lowers: Vec<String> = root
        .lowers
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let script = format!(
        "mkdir -p \"$1/merged\" && mount -t overlay -o ro,{{}}lowerdir={} none \"$1/merged\" \
         && cd \"$1/merged\" && find . | sort | tr '\\n' ' '",
        lowers.join(":")
    );
    // As root of the machine, and as root of a user namespace only.
    for (arguments, option) in [(&["-m"][..], ""), (&["-Urm"][..], "userxattr,")] {
        let script = script.replace("{}", option);
        let scratch: PathBuf = fixture.directory.path().join("scratch");
        let output = Command::new("unshare")
            .args(arguments)
            .args(["--propagation", "private", "sh", "-c", &script, "sh"])
            .arg(&scratch)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            assert!(std::env::var_os("CI").is_none(), "{reason}");
            println!("skipped {arguments:?}: {reason}");
            continue;
        }
        assert_eq!(
            text.trim(),
            ". ./kept ./opaque ./opaque/new ./replaced",
            "{arguments:?}"
        );
    }
}

#[tokio::test]
async fn a_registry_on_this_machine_must_be_allowed() {
    let fixture = Fixture::new().await;
    let directory = tempfile::tempdir().unwrap();
    let images = Images::open(directory.path(), QUOTA, false).unwrap();
    let credentials = Credentials::default();
    let refused = images
        .resolve(&fixture.name("v1"), Policy::Always, &credentials, &|_| ())
        .await;
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::Private { .. }), "{error:?}");
}
