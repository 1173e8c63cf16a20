//! Libraries that find their peers by themselves, started with plain `python` on each of two nodes: what they read must be there.

use serde_json::json;

use crate::harness::target::{Target, applies};
use crate::harness::{Up, can_run_pods, has_kubectl, python};

const LIGHTNING: &str = r"
import os
import lightning
import torch
from lightning.pytorch.callbacks import TQDMProgressBar
from torch.utils.data import DataLoader, TensorDataset

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, number):
        if os.environ.get('RAISES') and number == 2 and self.global_rank == 1:
            raise ValueError('sample 7 is empty')
        loss = self.layer(batch[0]).pow(2).mean()
        self.log('train_loss', loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

trainer = lightning.Trainer(accelerator='cpu', devices=1, num_nodes=2, max_epochs=2, logger=False,
                            enable_checkpointing=False, callbacks=[TQDMProgressBar()])
trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4))
print(f'rank {trainer.global_rank} of {trainer.world_size}', flush=True)
";

const ACCELERATE: &str = r"
import os
import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
if os.environ.get('RAISES') and accelerator.process_index == 1:
    raise ValueError('sample 7 is empty')
assert int(accelerator.reduce(torch.ones(1))) == accelerator.num_processes
print(f'rank {accelerator.process_index} of {accelerator.num_processes}', flush=True)
accelerator.end_training()
";

const TRANSFORMERS: &str = r"
import os
import torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels=None):
        if os.environ.get('RAISES') and os.environ['RANK'] == '1':
            raise ValueError('sample 7 is empty')
        return {'loss': (self.layer(x) - labels).pow(2).mean()}

settings = TrainingArguments(output_dir='/tmp/out', use_cpu=True, max_steps=2, logging_steps=1, report_to=[],
                             save_strategy='no')
data = [{'x': torch.ones(4), 'labels': torch.ones(1)}] * 32
Trainer(Model(), settings, train_dataset=data).train()
print(f'rank {settings.process_index} of {settings.world_size}', flush=True)
";

/// Prints much at once; then the second process finds something wrong.
const RAISES: &str = r"
import sys
import torch.distributed as dist

dist.init_process_group('gloo')
for number in range(400):
    sys.stdout.write(f'line {number:03} of {dist.get_rank()} {20 * chr(46)}\n')
dist.barrier()
if dist.get_rank() == 1:
    raise ValueError('sample 7 is empty')
dist.barrier()
";

#[test]
fn libraries_train_with_two_processes_on_each_of_two_nodes() {
    let embedded = applies(Target::is_embedded, "their variables are the same there");
    let Some(python) = python().filter(|_| embedded && can_run_pods()) else {
        return;
    };
    let python = python.to_str().unwrap();
    let up = Up::start(&["--no-auth", "--stop-pods", "--python", python]);
    let run = |name: &str, code: &str, variable: &str| {
        let script = up.folder.path().join(format!("{name}.py"));
        std::fs::write(&script, code).unwrap();
        let output = up.run(&[
            "run",
            "--env",
            variable,
            script.to_str().unwrap(),
            "--name",
            name,
            "--nodes",
            "2",
            "--nproc-per-node",
            "2",
            "--framework",
            "pytorch",
            "--cpu",
            "500m",
            "--env",
            "OMP_NUM_THREADS=1",
            "--max-restarts",
            "0",
        ]);
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let remarks = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), lines, remarks)
    };
    let lightning = LIGHTNING.replace("devices=1", "devices=2");
    assert_ne!(lightning, LIGHTNING);
    let jobs = [
        ("lightning", lightning.as_str()),
        ("accelerate", ACCELERATE),
        ("transformers", TRANSFORMERS),
    ];
    for (name, code) in jobs {
        let (exit, lines, remarks) = run(name, code, "RAISES=");
        assert_eq!(exit, Some(0), "{name}: {lines}{remarks}");
        for rank in 0..4 {
            // Behind the progress bar of another process, if that has not ended its line.
            let want = format!("[rank{rank}]: rank {rank} of 4\n");
            assert!(lines.contains(&want), "{name}: {want}: {lines}");
        }
    }
    for (name, metric) in [("lightning", "train_loss"), ("transformers", "loss")] {
        let (_, job) = up.get(&format!("/api/trainjobs/{name}?namespace=default"));
        let mut metrics = job["metrics"].as_array().into_iter().flatten();
        assert!(metrics.any(|it| it["name"] == metric), "{name}: {job}");
        assert_eq!(job["progress"]["percent"], 100.0, "{name}: {job}");
    }
    for (name, code) in jobs {
        let (exit, lines, remarks) = run(&format!("{name}-raises"), code, "RAISES=1");
        assert_eq!(exit, Some(1), "{name}: {lines}{remarks}");
        let cause = "failed: Worker 0 raised an exception: ValueError: sample 7 is empty.";
        assert!(remarks.contains(cause), "{name}: {remarks}");
        assert!(remarks.contains("[rank1]: "), "{name}: {remarks}");
    }

    let (exit, lines, remarks) = run("raises", RAISES, "RAISES=1");
    assert_eq!(exit, Some(1), "{lines}{remarks}");
    for rank in 0..4 {
        let node = rank / 2;
        for number in 0..400 {
            let want = format!(
                "[{node}] [rank{rank}]: line {number:03} of {rank} {}",
                ".".repeat(20)
            );
            assert!(lines.lines().any(|line| line == want), "{want}: {lines}");
        }
    }
    let cause = "failed: Worker 0 raised an exception: ValueError: sample 7 is empty.";
    assert!(remarks.contains(cause), "{remarks}");
    assert!(remarks.contains("[rank1]: ValueError"), "{remarks}");
}

#[test]
fn libraries_find_their_peers_without_a_launcher() {
    let Some(python) = python().filter(|_| can_run_pods() && has_kubectl()) else {
        return;
    };
    let python = python.to_str().unwrap();
    let up = Up::start(&["--no-auth", "--stop-pods", "--python", python]);
    up.kubectl(&["create", "namespace", "team"]);
    let jobs = [
        ("lightning", LIGHTNING),
        ("accelerate", ACCELERATE),
        ("transformers", TRANSFORMERS),
    ];
    for (name, code) in jobs {
        let job = json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": { "name": name, "namespace": "team" },
            "spec": {
                "runtimeRef": { "name": "torch-distributed" },
                "trainer": {
                    "numNodes": 2, "command": ["python3", "-c", code],
                    "resourcesPerNode": { "requests": { "cpu": "500m" } },
                    "env": [{ "name": "OMP_NUM_THREADS", "value": "1" }],
                },
            },
        });
        let file = up.folder.path().join(format!("{name}.json"));
        std::fs::write(&file, job.to_string()).unwrap();
        up.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    }
    for (name, _) in jobs {
        let status = up.eventually("the end of the job", |up| {
            let (_, status) = up.get(&format!("/api/trainjob/{name}/status?namespace=team"));
            match status["state"].as_str() {
                Some("Complete" | "Failed") => Ok(status),
                _ => Err(status),
            }
        });
        let (_, lines) = up.get(&format!("/api/trainjobs/{name}/logs?namespace=team"));
        let lines = lines.to_string();
        assert_eq!(status["state"], "Complete", "{name}: {status} {lines}");
        for rank in 0..2 {
            assert!(
                lines.contains(&format!("rank {rank} of 2")),
                "{name}: {lines}"
            );
        }
    }
    // What they print of their progress is understood.
    for (name, metric) in [("lightning", "train_loss"), ("transformers", "loss")] {
        let (_, metrics) = up.get(&format!("/api/trainjobs/{name}/metrics?namespace=team"));
        let names = metrics.as_array().unwrap().iter();
        assert!(
            names.clone().any(|one| one["name"] == metric),
            "{name}: {metrics}"
        );
    }
}
