"""What a trained model says of volumes: of a whole table (`BatchPredict`), or of a few files (`voxelflow predict`).

    session       the work of BatchPredict: plan, predict part by part, commit
    model_card    what a model's folder tells without TensorFlow
    opened_rows   the volumes to predict, labelled or not
    ledger        parts that are done, each a Parquet file and its record
    predictor     the model itself: volumes in, scores out
    part_work     reading and predicting one part after another
    predictions_table    the Delta table: columns, the commit, reading it
    latency       what it took
    away          the same parts in a process of its own, for Spark's executors
    few_files     `.npy` files from the command line

Only `predictor` imports TensorFlow.
"""
