"""Write `.npy` files as TFRecord: `python -m tests.benchmarks.record_files FOLDER INTO VOLUMES_IN_A_FILE`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np


def main() -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf

    def bytes_of(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def number(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    folder, into, each = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    paths, written = sorted(folder.glob("*.npy")), []
    for first in range(0, len(paths), each):
        written.append(str(into / f"{first:07d}.tfrecord"))
        with tf.io.TFRecordWriter(written[-1]) as sink:
            for path in paths[first : first + each]:
                row = int(path.stem)
                values = {"row": number(row), "label": number(row % 2), "volume": bytes_of(np.load(path).tobytes())}
                sink.write(tf.train.Example(features=tf.train.Features(feature=values)).SerializeToString())
    print(json.dumps(written))


if __name__ == "__main__":
    main()
