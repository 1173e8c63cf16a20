#!/usr/bin/env python3
"""Shows what a TrainJob and its runtime become together: `scripts/merge_preview.py pytorch/pytorch-distributed-with-configmap.yaml`."""

import os
import sys

os.execvp("astrago", ["astrago", "preview", "-f", *sys.argv[1:]])
