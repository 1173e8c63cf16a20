//! The laboratory: what kills and faults do to the whole product. docs/reliability.md tells about it.
//!
//! | part | what it is |
//! |---|---|
//! | [`model`] | what may be true, given what was asked and answered; pure |
//! | [`objects`], [`jobs`] | the load, and its histories |
//! | [`faults`] | what is done to the server and its pods |
//! | [`disk`] | what the data folder lies on |
//! | [`processes`] | what the kernel and the disk still have of them |
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that fails should end at once and say so"
)]

mod disk;
mod faults;
mod jobs;
mod model;
mod objects;
mod processes;
mod server;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::{batch::v1 as batch, core::v1 as core};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use self::disk::Disk;
use self::faults::{Fault, Place};
use self::jobs::Job;
use self::objects::Objects;
use self::server::{Rest, Server, eventually, pause};

/// Says that this process has mounts of its own.
const INSIDE: &str = "LAB_INSIDE";

/// Runs the test with mounts of its own: no other namespace of the machine then holds its disk.
fn apart() {
    let status = std::process::Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--nocapture", "--exact"])
        .arg("nothing_is_lost_or_done_twice_whatever_is_killed")
        .env(INSIDE, "1")
        .status();
    assert!(status.unwrap().success());
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn nothing_is_lost_or_done_twice_whatever_is_killed() {
    if !rustix::process::geteuid().is_root() {
        let ci = std::env::var("CI").as_deref() == Ok("true");
        assert!(!ci, "CI must run this test as root");
        println!("skipped: this test runs pods and needs root");
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        return apart();
    }
    let seed = setting("LAB_SEED").unwrap_or(1);
    let kills = setting("LAB_KILLS");
    // Without a wish this is the short run of `make test`.
    let minutes = setting("LAB_MINUTES").or(kills.is_none().then_some(1));
    println!("LAB_SEED={seed}");
    let folder = tempfile::Builder::new()
        .prefix("astrago-lab-")
        .tempdir()
        .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let mut lab = Lab {
        server: Server::new(folder.path()),
        began: Instant::now(),
        timeline: Vec::new(),
        pods: BTreeSet::new(),
        disk: None,
        kills: 0,
        descriptors: None,
    };
    lab.disk = Disk::new(&lab.server.data);
    let until = minutes.map(Duration::from_mins);
    let found = runtime.block_on(lab.run(seed, until, kills));
    if let Err(finding) = found {
        let log = lab.server.log();
        let kept = folder.keep();
        let _ = lab.server.end(Signal::KILL);
        processes::kill(&lab.server.data);
        println!("the server's last words:\n{log}\n");
        println!("what was done:\n{}", lab.timeline.join("\n"));
        let disk = lab.disk.as_ref().map(Disk::keep);
        panic!(
            "LAB_SEED={seed}: {finding}\nkept: {} and {disk:?}",
            kept.display()
        );
    }
    if let Some(disk) = lab.disk {
        disk.remove();
    }
}

struct Lab {
    server: Server,
    began: Instant,
    timeline: Vec<String>,
    /// All pods that there were.
    pods: BTreeSet<String>,
    /// Where the machine lets us have one.
    disk: Option<Disk>,
    kills: u64,
    /// How many descriptors the server had after the first round.
    descriptors: Option<usize>,
}

impl Lab {
    async fn run(
        &mut self,
        seed: u64,
        until: Option<Duration>,
        kills: Option<u64>,
    ) -> Result<(), String> {
        let mut random = StdRng::seed_from_u64(seed);
        self.server.start()?;
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let client = self.server.kube().await;
        let mut objects = Objects::new(client.clone(), &stop).await;
        for round in 1.. {
            let enough = until.is_some_and(|until| self.began.elapsed() > until)
                || kills.is_some_and(|kills| self.kills >= kills);
            if enough {
                break;
            }
            self.timeline = vec![format!("round {round}")];
            let seed = random.random();
            self.round(round, seed, &mut objects, &client)
                .await
                .map_err(|finding| format!("round {round}: {finding}"))?;
        }
        self.server.end(Signal::TERM)?;
        let link = processes::link(&self.server.data);
        eventually("the end of the way out", || async {
            let left = processes::left(&self.server.data, None, &self.pods, &["pods"]);
            if left.is_empty() && !link.exists() {
                Ok(())
            } else {
                Err(format!("{left:?} {}", link.display()))
            }
        })
        .await
    }

    async fn round(
        &mut self,
        round: u64,
        seed: u64,
        objects: &mut Objects,
        client: &kube::Client,
    ) -> Result<(), String> {
        let mut random = StdRng::seed_from_u64(seed);
        let rest = self.server.rest();
        // Every second round has a bad disk instead of jobs, which would have a reason to fail on it.
        let with_jobs = self.disk.is_none() || !round.is_multiple_of(2);
        let plan: Vec<(Job, u64, u64, bool)> = (0..if with_jobs { 4 } else { 0 })
            .map(|number| {
                let job = Job::new(format!("round-{round}-{number}"));
                let before = random.random_range(0..1000);
                let length = random.random_range(200..6000);
                (job, before, length, random.random_bool(0.3))
            })
            .collect();
        let jobs: Vec<Job> = plan.iter().map(|(job, ..)| job.clone()).collect();
        let count = random.random_range(if with_jobs { 5..12 } else { 10..25 });
        let faults: Vec<(u64, Fault, u64)> = (0..count)
            .map(|_| {
                let fault = Fault::choose(&mut random, with_jobs, self.disk.is_some());
                (random.random_range(0..900), fault, random.random())
            })
            .collect();

        let calm = CancellationToken::new();
        let place = self.server.place.display().to_string();
        let creating = tokio::spawn(jobs::create_all(rest.clone(), place, plan));
        let disturbing = async {
            // However this ends, the writers are told.
            let _calm = calm.clone().drop_guard();
            for (before, fault, seed) in faults {
                pause(before).await;
                self.kills += u64::from(fault.kills());
                self.pods
                    .extend(processes::pods(&self.server.data).into_keys());
                let mut place = Place {
                    server: &mut self.server,
                    rest: &rest,
                    jobs: &jobs,
                    disk: self.disk.as_ref(),
                    timeline: &mut self.timeline,
                    began: self.began,
                };
                place.apply(fault, seed).await?;
            }
            Ok::<(), String>(())
        };
        let (disturbed, written) = tokio::join!(disturbing, objects.write(&mut random, &calm));
        disturbed?;
        let (writes, unknown) = written?;
        creating.await.unwrap()?;
        for job in &jobs {
            job.check(&rest, &self.server).await?;
        }
        self.pods
            .extend(processes::pods(&self.server.data).into_keys());
        objects.settle(round, with_jobs).await?;
        self.account(&jobs, &rest, client).await?;
        let (descriptors, memory) = self.server.id().map_or((0, 0), processes::footprint);
        println!(
            "round {round}: {writes} operations ({unknown} without an answer), {} jobs, {} kills so far, {descriptors} descriptors, {} MiB",
            jobs.len(),
            self.kills,
            memory / 1024
        );
        let first = *self.descriptors.get_or_insert(descriptors);
        if descriptors > first + 100 {
            return Err(format!("{descriptors} descriptors are open, {first} were"));
        }
        self.server.end(Signal::TERM)?;
        self.server.start()?;
        self.nothing_is_left(&["pods", "volumes/lab-jobs", "snapshots"])
            .await
    }

    /// Deletes the jobs and waits until nothing reminds of them.
    async fn account(
        &self,
        jobs: &[Job],
        rest: &Rest,
        client: &kube::Client,
    ) -> Result<(), String> {
        for job in jobs {
            job.delete(rest).await?;
        }
        for namespace in [jobs::NAMESPACE, "lab"] {
            none::<astrago_api::JobSet>(client, namespace).await?;
            none::<batch::Job>(client, namespace).await?;
            none::<core::Pod>(client, namespace).await?;
            none::<core::PersistentVolumeClaim>(client, namespace).await?;
        }
        none::<astrago_api::TrainJob>(client, jobs::NAMESPACE).await?;
        none::<core::ConfigMap>(client, jobs::NAMESPACE).await?;
        self.nothing_is_left(&["pods"]).await
    }

    async fn nothing_is_left(&self, folders: &[&str]) -> Result<(), String> {
        let data: &Path = &self.server.data;
        eventually("that nothing is left", || async {
            let left = processes::left(data, self.server.id(), &self.pods, folders);
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:#?}"))
            }
        })
        .await
    }
}

/// Waits until a namespace has none of a kind, but for what the laboratory itself needs.
async fn none<K>(client: &kube::Client, namespace: &str) -> Result<(), String>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    let what = format!("the end of all {}s of {namespace}", K::kind(&()));
    eventually(&what, || async {
        let all = api.list(&kube::api::ListParams::default()).await;
        let names = all.map_err(|error| error.to_string())?.into_iter();
        let names: Vec<String> = names.map(|object| object.name_any()).collect();
        // The setup of a framework is shared by all jobs of a namespace.
        let own = |name: &str| {
            let shared = ["kube-root-ca.crt", "pytorch-pet-setup"];
            shared.contains(&name) || name.starts_with("sentinel")
        };
        match names.iter().find(|name| !own(name)) {
            None => Ok(()),
            Some(_) => Err(format!("{names:?}")),
        }
    })
    .await
}
