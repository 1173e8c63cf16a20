"""Train a small classifier of handwritten digits with TensorFlow's MultiWorkerMirroredStrategy, over any number of nodes.

The only things it takes from its surroundings are the variables that Astrago sets for every node:

    TF_CONFIG                                                 the cluster and this node's place in it
    CHECKPOINT_DIR                                            where to keep checkpoints over restarts (optional)
    EPOCHS, BATCH_SIZE, LEARNING_RATE                         yours to set; see below

A custom training loop, because Keras 3's `fit` does not work under this strategy (its error: "unsupported type PerReplica").
The data set (1,797 images of 8 x 8 pixels) comes with scikit-learn: nothing is downloaded.
It reaches 95 % accuracy on images that it has not seen.
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

EPOCHS = int(os.environ.get("EPOCHS", "15"))
BATCH_SIZE = int(os.environ.get("BATCH_SIZE", "32"))  # per worker
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.3"))
TARGET_ACCURACY = float(os.environ.get("TARGET_ACCURACY", "0.95"))
CHECKPOINT_DIR = os.environ.get("CHECKPOINT_DIR")


def main():
    tf.random.set_seed(0)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "worker", "index": 0})
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    workers = strategy.num_replicas_in_sync
    print(f"Worker {task['index']} of {workers} on {os.uname().nodename}", flush=True)

    train_x, test_x, train_y, test_y = load_data()
    global_batch = BATCH_SIZE * workers
    steps = len(train_x) // global_batch
    dataset = tf.data.Dataset.from_tensor_slices((train_x, train_y)).shuffle(len(train_x), seed=0).repeat()
    iterator = iter(strategy.experimental_distribute_dataset(dataset.batch(global_batch)))

    with strategy.scope():
        model = Classifier()
    epoch_done = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(batch):
        def one_replica(images, labels):
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images))
                loss = tf.nn.compute_average_loss(losses, global_batch_size=global_batch)
            gradients = tape.gradient(loss, model.weights)
            # Summed over all workers first, so that every worker makes the same step.
            gradients = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradients)
            for weight, gradient in zip(model.weights, gradients):
                weight.assign_sub(LEARNING_RATE * gradient)
            return loss

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(one_replica, args=batch), axis=None)

    manager = checkpoints(model, epoch_done, task["index"])
    if manager is not None and manager.restore_or_initialize():
        print(f"Worker {task['index']}: resumed from checkpoint of epoch {int(epoch_done)}", flush=True)

    for epoch in range(int(epoch_done) + 1, EPOCHS + 1):
        for batch in range(steps):
            loss = step(next(iterator))
            if batch % 10 == 0:
                print(f"Epoch {epoch}, Batch {batch}/{steps}, Loss: {float(loss):.4f}", flush=True)
        epoch_done.assign(epoch)
        if manager is not None:
            manager.save()

    accuracy = float(tf.reduce_mean(tf.cast(tf.equal(tf.argmax(model(test_x), 1), test_y), tf.float32)))
    print(f"Worker {task['index']}: accuracy {accuracy:.4f} after {EPOCHS} epochs", flush=True)
    if accuracy < TARGET_ACCURACY:
        sys.exit(f"accuracy {accuracy:.4f} is below the target of {TARGET_ACCURACY}")


class Classifier(tf.Module):
    """Two dense layers."""

    def __init__(self):
        super().__init__()
        initial = tf.random.Generator.from_seed(0)
        self.w1 = tf.Variable(initial.normal((64, 64), stddev=0.15))
        self.b1 = tf.Variable(tf.zeros(64))
        self.w2 = tf.Variable(initial.normal((64, 10), stddev=0.15))
        self.b2 = tf.Variable(tf.zeros(10))

    @property
    def weights(self):
        return [self.w1, self.b1, self.w2, self.b2]

    def __call__(self, images):
        return tf.nn.relu(images @ self.w1 + self.b1) @ self.w2 + self.b2


def checkpoints(model, epoch_done, index):
    """Every worker saves and restores its own copy: they are all the same, and no worker waits for another's file."""
    if not CHECKPOINT_DIR:
        return None
    state = tf.train.Checkpoint(model=model, epoch=epoch_done)
    return tf.train.CheckpointManager(state, os.path.join(CHECKPOINT_DIR, f"worker-{index}"), max_to_keep=2)


def load_data():
    images, labels = load_digits(return_X_y=True)
    return train_test_split(
        (images / 16.0).astype("float32"), labels.astype("int64"), test_size=0.2, random_state=0
    )


if __name__ == "__main__":
    main()
