"""Train boosted trees on handwritten digits with XGBoost, data-parallel over any number of nodes.

Astrago sets DMLC_TRACKER_URI, DMLC_TRACKER_PORT, DMLC_TASK_ID and DMLC_NUM_WORKER for every node. Node 0 also runs the tracker at which all
nodes meet. The data set comes with scikit-learn: nothing is downloaded. It reaches 92 % accuracy on images that it has not seen.
"""

import os
import socket
import sys
import time

import xgboost as xgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from xgboost.tracker import RabitTracker

ROUNDS = int(os.environ.get("ROUNDS", "30"))
TARGET_ACCURACY = float(os.environ.get("TARGET_ACCURACY", "0.92"))


def main():
    host, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
    index, workers = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])

    tracker = None
    if index == 0:
        tracker = RabitTracker(host_ip=socket.gethostbyname(host), n_workers=workers, port=port, sortby="task")
        tracker.start()
    address = wait_for(host, port)

    with xgb.collective.CommunicatorContext(
        dmlc_communicator="rabit", dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_task_id=str(index)
    ):
        print(f"Worker {xgb.collective.get_rank()} of {workers} on {os.uname().nodename}", flush=True)
        images, labels = load_digits(return_X_y=True)
        train_x, test_x, train_y, test_y = train_test_split(images, labels, test_size=0.2, random_state=0)
        data = xgb.DMatrix(train_x[index::workers], train_y[index::workers])
        booster = xgb.train(
            {"objective": "multi:softmax", "num_class": 10, "max_depth": 4, "eta": 0.3, "tree_method": "hist", "nthread": 1},
            data,
            num_boost_round=ROUNDS,
            callbacks=[Progress()],
            evals=[(data, "train")],
            verbose_eval=False,
        )
        accuracy = float((booster.predict(xgb.DMatrix(test_x)) == test_y).mean())
        print(f"Worker {index}: accuracy {accuracy:.4f} after {ROUNDS} rounds", flush=True)
    if tracker is not None:
        tracker.wait_for()
    if accuracy < TARGET_ACCURACY:
        sys.exit(f"accuracy {accuracy:.4f} is below the target of {TARGET_ACCURACY}")


class Progress(xgb.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log):
        loss = evals_log["train"]["mlogloss"][-1]
        print(f"Epoch {epoch + 1}, Batch 0/1, Loss: {loss:.4f}", flush=True)
        return False


def wait_for(host, port, seconds=60):
    """The tracker's address, once it listens: nodes start at the same time, node 0 not always first."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            address = socket.gethostbyname(host)
            socket.create_connection((address, port), timeout=1).close()
            return address
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"no tracker at {host}:{port} after {seconds} s: {error}")
            time.sleep(0.1)


if __name__ == "__main__":
    main()
